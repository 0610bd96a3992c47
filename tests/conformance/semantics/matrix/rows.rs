//! The rows of the table that ops have: one for each op that stands in the trace, and for each type that it converts to.

use jit_core::dtype::{ALL_DTYPES, DType};
use jit_core::op::{ALL_OPS, Class, Op, Rule};
use jit_core::runtime::Device;

use super::lanes::Typed;
use super::reasons::Reason;
use super::{Asked, combining, memory};

/// What is asked of one type on one device, or why there is nothing to ask; a panic that states a reason is one, too.
pub(super) type Ask = Box<dyn Fn(Device, DType) -> Result<Vec<Asked>, Reason> + Send + Sync>;

/// A row of the table.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) ask: Ask,
}

fn row(name: &str, ask: impl Fn(Device, DType) -> Vec<Asked> + Send + Sync + 'static) -> Row {
    Row { name: name.to_owned(), ask: Box::new(move |device, dtype| Ok(ask(device, dtype))) }
}

/// Ops on lanes, with what they convert to.
pub(super) fn lane_ops() -> Vec<(Op, Option<DType>)> {
    let results = |op: Op| match op.rule() {
        Rule::Cast | Rule::Bitcast => ALL_DTYPES.map(Some).to_vec(),
        _ => vec![None],
    };
    let lane = ALL_OPS.iter().copied().filter(|op| op.is_lane());
    lane.flat_map(|op| results(op).into_iter().map(move |wanted| (op, wanted))).collect()
}

/// Under their headings, the rows of all ops but those that only traces and kernels hold.
pub(super) fn of_ops() -> Vec<(&'static str, Vec<Row>)> {
    let lane = |class: Class| {
        let ops = lane_ops().into_iter().filter(move |(op, _)| op.class() == class);
        let named = ops.map(|(op, wanted)| {
            let name = wanted.map_or_else(|| op.name().to_owned(), |to| format!("{} to {to}", op.name()));
            row(&name, move |device, dtype| Typed { op, dtype, wanted: wanted.unwrap_or(dtype) }.ask(device))
        });
        named.collect::<Vec<Row>>()
    };
    let class = |class: Class| {
        let ops = ALL_OPS.iter().copied().filter(move |op| op.class() == class);
        ops.flat_map(of_op).collect::<Vec<Row>>()
    };
    vec![
        ("Where values begin", class(Class::Leaf)),
        ("On each lane, by the type of the last operand", lane(Class::Lane)),
        ("Mathematical functions", lane(Class::Math)),
        (
            "Memory, by the type of its elements",
            [class(Class::Read), class(Class::Effect)].into_iter().flatten().collect(),
        ),
        ("A lane's own arrays", class(Class::Local)),
        ("Reductions", class(Class::Reduce)),
        ("Across lanes", class(Class::Across)),
        ("Regions, by the type of what they pass on (`switch`: of its index)", class(Class::Region)),
    ]
}

fn of_op(op: Op) -> Vec<Row> {
    let name = op.name();
    let one = |ask: fn(Device, DType) -> Vec<Asked>| vec![row(name, ask)];
    match op {
        Op::Literal => one(combining::literal),
        Op::Counter => one(combining::counter),
        Op::LaneCount => one(combining::lane_count),
        Op::Gather => one(memory::gather),
        Op::AtomicInc => one(memory::atomic_inc),
        Op::Exchange => one(memory::exchange),
        Op::CompareExchange => one(memory::compare_exchange),
        Op::Reduce => one(combining::reduce_by_closure),
        Op::Sort => one(combining::sort),
        Op::Argsort => one(combining::argsort),
        Op::Compress => one(combining::compress),
        Op::Loop => one(memory::loops),
        Op::If => one(memory::branches),
        Op::Switch => one(memory::switches),
        Op::Scan => [Op::Add, Op::Min, Op::Max]
            .into_iter()
            .map(|by| row(&format!("{name} by {}", by.name()), move |d, t| combining::scan(by, d, t)))
            .collect(),
        _ => match op.class() {
            Class::Effect => vec![row(name, move |d, t| memory::scatter(op, d, t))],
            Class::Local => vec![row(name, move |d, t| memory::local(op, d, t))],
            Class::Reduce => vec![row(name, move |d, t| combining::reduce(op, d, t))],
            other => panic!("no rows are written for `{name}` of class {other:?}"),
        },
    }
}
