//! Benchmarks of the engine; see `benches/`. `cargo bench -p jit-benches` runs them.
