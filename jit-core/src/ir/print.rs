//! Writes a program in its text form, which [`parse`](super::parse()) reads back.
