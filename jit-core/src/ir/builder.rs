//! Builds programs instruction by instruction.

use smallvec::SmallVec;

use super::{Block, Blocks, Inst, Param, ParamId, ParamKind, Program, Table, TableId, Value, ValueList};
use crate::dtype::DType;
use crate::op::Op;

/// Appends instructions to the innermost open block of a program.
///
/// Nothing is checked here beyond what indexing checks: run [`verify`](super::verify) on the result.
#[derive(Default)]
pub struct Builder {
    program: Program,
    open: Vec<Block>,
}

impl Builder {
    /// A builder with the body's block open.
    pub fn new() -> Self {
        Builder { program: Program::default(), open: vec![Block::default()] }
    }

    /// A builder with the body's block open, and room for so many instructions in it.
    pub fn with_capacity(insts: usize) -> Self {
        let mut builder = Builder::new();
        builder.innermost().insts.reserve(insts);
        builder.program.values.reserve(insts);
        builder
    }

    /// A builder that appends to a copy of nothing but the value types of `program`: for passes that make
    /// instructions to be spliced into it. Returned by [`into_block`](Self::into_block).
    pub fn extending(program: Program) -> Self {
        Builder { program, open: vec![Block::default()] }
    }

    /// Closes the innermost block and returns it with the program it extends.
    pub fn into_block(mut self) -> (Program, Block) {
        let block = self.close_block(&[]);
        (self.program, block)
    }

    /// The program so far, without the open blocks.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The type of a value.
    pub fn dtype(&self, value: Value) -> DType {
        self.program.dtype(value)
    }

    /// Adds a parameter.
    pub fn param(&mut self, kind: ParamKind, dtype: DType) -> ParamId {
        self.program.params.push(Param { kind, dtype, min_len: 0, spans_lanes: false });
        ParamId(self.program.params.len() as u32 - 1)
    }

    /// Adds a constant table, or finds an equal one.
    pub fn table(&mut self, dtype: DType, bits: &[u64]) -> TableId {
        let equal = |t: &Table| t.dtype == dtype && t.bits == bits;
        let at = self.program.tables.iter().position(equal).unwrap_or_else(|| {
            self.program.tables.push(Table { dtype, bits: bits.to_vec() });
            self.program.tables.len() - 1
        });
        TableId(at as u32)
    }

    /// Appends an instruction with results of these types.
    pub fn inst(
        &mut self,
        op: Op,
        imm: u64,
        args: &[Value],
        results: &[DType],
        blocks: Vec<Block>,
    ) -> ValueList {
        let results: ValueList = results.iter().map(|&d| self.program.new_value(d)).collect();
        self.push(op, imm, args, results.clone(), blocks.into());
        results
    }

    /// Appends an instruction with one result of that type.
    pub fn value(&mut self, op: Op, imm: u64, args: &[Value], dtype: DType) -> Value {
        let result = self.program.new_value(dtype);
        self.push(op, imm, args, [result].into(), Blocks::default());
        result
    }

    /// A pure op whose result type follows from its operands by the op table.
    ///
    /// # Panics
    /// If the op does not take them.
    pub fn op(&mut self, op: Op, args: &[Value]) -> Value {
        let types: SmallVec<[DType; 4]> = args.iter().map(|&a| self.dtype(a)).collect();
        let wanted = types.last().copied().unwrap_or(DType::Bool);
        let dtype = op.result_type(&types, wanted).unwrap_or_else(|e| panic!("{e}"));
        self.value(op, 0, args, dtype)
    }

    /// A literal.
    pub fn literal(&mut self, dtype: DType, bits: u64) -> Value {
        self.value(Op::Literal, bits, &[], dtype)
    }

    /// A conversion by value.
    pub fn cast(&mut self, to: DType, value: Value) -> Value {
        if self.dtype(value) == to { value } else { self.value(Op::Cast, 0, &[value], to) }
    }

    /// The same bits under another type.
    pub fn bitcast(&mut self, to: DType, value: Value) -> Value {
        if self.dtype(value) == to { value } else { self.value(Op::Bitcast, 0, &[value], to) }
    }

    /// The lane index as u32 or u64.
    pub fn counter(&mut self, dtype: DType) -> Value {
        self.value(Op::Counter, 0, &[], dtype)
    }

    /// `param`, `load` or `load_scalar` of a parameter.
    pub fn read(&mut self, op: Op, param: ParamId) -> Value {
        let dtype = self.program.params[param.index()].dtype;
        self.value(op, u64::from(param.0), &[], dtype)
    }

    /// An element of a constant table.
    pub fn lookup(&mut self, table: TableId, index: Value) -> Value {
        let dtype = self.program.tables[table.index()].dtype;
        self.value(Op::Lookup, u64::from(table.0), &[index], dtype)
    }

    /// An element of memory, 0 where masked off or out of bounds.
    pub fn gather(&mut self, param: ParamId, index: Value, mask: Option<Value>) -> Value {
        let dtype = self.program.params[param.index()].dtype;
        let args: ValueList = [index].into_iter().chain(mask).collect();
        self.value(Op::Gather, u64::from(param.0), &args, dtype)
    }

    /// An array of zeros for each lane.
    pub fn local_zeros(&mut self, dtype: DType, len: u32) -> Value {
        let value = self.value(Op::LocalZeros, u64::from(len), &[], dtype);
        self.set_local(value, Some(len));
        value
    }

    /// An element of a lane's own array, 0 where masked off or out of bounds.
    pub fn local_read(&mut self, array: Value, index: Value, mask: Option<Value>) -> Value {
        let dtype = self.dtype(array);
        let args: ValueList = [array, index].into_iter().chain(mask).collect();
        self.value(Op::LocalRead, 0, &args, dtype)
    }

    /// A lane's own array with one element changed.
    pub fn local_write(&mut self, array: Value, value: Value, index: Value, mask: Option<Value>) -> Value {
        let dtype = self.dtype(array);
        let args: ValueList = [array, value, index].into_iter().chain(mask).collect();
        let result = self.value(Op::LocalWrite, 0, &args, dtype);
        self.set_local(result, self.program.local_len(array));
        result
    }

    /// Says of a value made with its element type that it is a local array, if it has a length.
    pub fn set_local(&mut self, value: Value, len: Option<u32>) {
        if let Some(len) = len {
            self.program.locals.insert(value, len);
        }
    }

    /// A scatter of any kind.
    pub fn scatter(&mut self, op: Op, param: ParamId, value: Value, index: Value, mask: Option<Value>) {
        let args: ValueList = [value, index].into_iter().chain(mask).collect();
        self.push(op, u64::from(param.0), &args, ValueList::new(), Blocks::default());
    }

    /// Writes a lane's element (in a finish: element 0) of an output.
    pub fn store(&mut self, param: ParamId, value: Value) {
        self.push(Op::Store, u64::from(param.0), &[value], ValueList::new(), Blocks::default());
    }

    /// Opens a nested block with parameters of these types; instructions go there until
    /// [`close_block`](Self::close_block).
    pub fn open_block(&mut self, params: &[DType]) -> Vec<Value> {
        let params: Vec<Value> = params.iter().map(|&d| self.program.new_value(d)).collect();
        self.open.push(Block { params: params.clone(), ..Block::default() });
        params
    }

    /// Closes the innermost block.
    ///
    /// # Panics
    /// If none is open.
    pub fn close_block(&mut self, yields: &[Value]) -> Block {
        let mut block = self.open.pop().expect("an open block");
        block.yields = yields.to_vec();
        block
    }

    /// Number of open blocks, the body included.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Closes the body; what follows goes into the finish, whose parameters have these types.
    pub fn start_finish(&mut self, params: &[DType]) -> Vec<Value> {
        self.program.body = self.close_block(&[]);
        self.open_block(params)
    }

    /// The finished program.
    ///
    /// # Panics
    /// If a nested block is still open.
    pub fn finish(mut self, with_finish: bool) -> Program {
        assert_eq!(self.open.len(), 1, "a nested block is still open");
        let last = self.close_block(&[]);
        if with_finish {
            self.program.finish = Some(last);
        } else {
            self.program.body = last;
        }
        self.program
    }

    fn push(&mut self, op: Op, imm: u64, args: &[Value], results: ValueList, blocks: Blocks) {
        let args = args.into();
        self.innermost().insts.push(Inst { op, in_bounds: false, imm, results, args, blocks });
    }

    fn innermost(&mut self) -> &mut Block {
        self.open.last_mut().expect("an open block")
    }
}
