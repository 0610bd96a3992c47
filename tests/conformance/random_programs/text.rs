//! A program as a file: what it does as comments, and below them the program itself, a step a line.

use super::program::Program;

/// The text of a program.
#[cfg(not(test))]
pub(crate) fn write(program: &Program, why: &str) -> String {
    let mut text = String::new();
    for line in why.lines().chain(program.to_string().lines()) {
        text.push_str("# ");
        text.push_str(line);
        text.push('\n');
    }
    // A step a line: a list in the program, and then what is in it.
    let style = ron::ser::PrettyConfig::new().depth_limit(2).indentor("  ").compact_maps(true);
    text + &ron::ser::to_string_pretty(program, style).expect("plain data") + "\n"
}

/// The program of a text.
#[cfg(test)]
pub(crate) fn read(text: &str) -> Result<Program, String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    ron::from_str(&lines.join("\n")).map_err(|e| e.to_string())
}

/// Ops by name.
pub(super) mod op {
    use jit_core::op::Op;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(op: &Op, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(op.name())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Op, D::Error> {
        super::op_of(&String::deserialize(from)?)
    }
}

/// Lists of ops by name.
pub(super) mod ops {
    use jit_core::op::Op;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(ops: &[Op], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(ops.iter().map(|op| op.name()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Op>, D::Error> {
        Vec::<String>::deserialize(from)?.iter().map(|name| super::op_of(name)).collect()
    }
}

/// Types by name.
pub(super) mod dtype {
    use jit_core::dtype::DType;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(dtype: &DType, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(dtype.name())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DType, D::Error> {
        let name = String::deserialize(from)?;
        DType::from_name(&name).ok_or_else(|| D::Error::custom(format!("no type is called {name}")))
    }
}

/// Divisions as the kind of segments and their length.
pub(super) mod division {
    use jit_core::ir::Segments;
    use jit_core::trace::Division;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer>(division: &Division, to: S) -> Result<S::Ok, S::Error> {
        let kind = match division.segments() {
            Segments::All => "all",
            Segments::Rows => "rows",
            Segments::Columns => "columns",
        };
        (kind, division.length()).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Division, D::Error> {
        let (kind, length) = <(String, u64)>::deserialize(from)?;
        match &*kind {
            "all" => Ok(Division::ALL),
            "rows" => Ok(Division::rows(length)),
            "columns" => Ok(Division::columns(length)),
            other => Err(D::Error::custom(format!("no segments are called {other}"))),
        }
    }
}

fn op_of<E: serde::de::Error>(name: &str) -> Result<jit_core::op::Op, E> {
    jit_core::op::Op::from_name(name).ok_or_else(|| E::custom(format!("no op is called {name}")))
}
