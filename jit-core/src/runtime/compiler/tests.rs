use std::sync::Barrier;

use super::*;
use crate::backend::{Allocation, Caps};
use crate::builtin::Builtin;
use crate::interp::{Interpreter, Mode};
use crate::ir::parse;
use crate::runtime::KernelCache;

type Before = dyn Fn(&Program) -> Result<(), Error> + Send + Sync;

/// An interpreter that counts what it compiles, and may wait or fail before it does.
struct Counting {
    inner: Interpreter,
    compiled: Arc<AtomicUsize>,
    before: Box<Before>,
}

impl Backend for Counting {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn compile(&self, program: &Program) -> Result<Arc<dyn CompiledKernel>, Error> {
        self.compiled.fetch_add(1, Ordering::Relaxed);
        (self.before)(program)?;
        self.inner.compile(program)
    }

    fn builtin(&self, builtin: Builtin) -> Result<Arc<dyn CompiledKernel>, Error> {
        self.inner.builtin(builtin)
    }

    fn allocate(&self, bytes: usize) -> Result<Allocation, Error> {
        self.inner.allocate(bytes)
    }
}

fn compiler(
    before: impl Fn(&Program) -> Result<(), Error> + Send + Sync + 'static,
) -> (Compiler, Arc<AtomicUsize>) {
    let compiled = Arc::<AtomicUsize>::default();
    let inner = Interpreter::new(Mode::Lowered);
    let backend = Counting { inner, compiled: Arc::clone(&compiled), before: Box::new(before) };
    (Compiler::new(Arc::new(backend), &DeviceOptions::default()), compiled)
}

/// The structure of a sum of `terms` terms, and one literal.
fn entry(cache: &mut KernelCache, terms: usize) -> Arc<KernelEntry> {
    let mut text = "param p0: out f32\nbody {\nv0: f32 = literal 0.375\n".to_owned();
    (1..=terms).for_each(|k| text.push_str(&format!("v{k}: f32 = add v{}, v0\n", k - 1)));
    text.push_str(&format!("store p0, v{terms}\n}}"));
    cache.entry(parse(&text).expect("a program"), &mut Vec::new())
}

const VALUES: [u64; 1] = [0x3f20_0000];

#[test]
fn several_threads_that_miss_one_structure_compile_it_once() {
    const THREADS: usize = 8;
    let arrived = Arc::<AtomicUsize>::default();
    let seen = Arc::clone(&arrived);
    let (compiler, compiled) = compiler(move |_| {
        // Until all of them are about to ask.
        while seen.load(Ordering::Relaxed) < THREADS {
            std::thread::yield_now();
        }
        Ok(())
    });
    let entry = entry(&mut KernelCache::default(), 3);
    let misses = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                arrived.fetch_add(1, Ordering::Relaxed);
                for made in compiler.prepare(&[(&entry, &VALUES), (&entry, &VALUES)]) {
                    let missed = made.expect("it compiles").cache != CacheOutcome::Hit;
                    misses.fetch_add(usize::from(missed), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(compiled.load(Ordering::Relaxed), 1);
    assert_eq!(misses.into_inner(), 1, "one asked for it, the others found it");
}

#[test]
fn what_one_plan_misses_compiles_at_the_same_time() {
    let together = std::thread::available_parallelism().map_or(1, usize::from).min(2);
    let barrier = Barrier::new(together);
    let (compiler, compiled) = compiler(move |_| {
        // Passed only by two at a time.
        barrier.wait();
        Ok(())
    });
    let mut cache = KernelCache::default();
    let entries: Vec<_> = (1..=6).map(|terms| entry(&mut cache, terms)).collect();
    let wanted: Vec<_> = entries.iter().map(|e| (&**e, &VALUES[..])).collect();
    for (entry, made) in entries.iter().zip(compiler.prepare(&wanted)) {
        let made = made.expect("it compiles");
        assert_eq!(
            made.loaded.outline.instructions,
            compiler.program(entry, &made.variant).expect("a program").inst_count() as u64
        );
        assert_eq!(made.cache, CacheOutcome::Miss("new structure".to_owned()));
    }
    assert_eq!((compiled.load(Ordering::Relaxed), compiler.loaded()), (6, 6));
    assert!(
        compiler
            .prepare(&wanted)
            .into_iter()
            .all(|made| made.expect("it is there").cache == CacheOutcome::Hit)
    );
}

#[test]
fn one_that_fails_leaves_the_others() {
    let planned = |program: &Program| match program.inst_count() {
        4 => Err(Error::Execution("planned".to_owned())),
        _ => Ok(()),
    };
    let (compiler, compiled) = compiler(planned);
    let mut cache = KernelCache::default();
    let entries: Vec<_> = (1..=3).map(|terms| entry(&mut cache, terms)).collect();
    let wanted: Vec<_> = entries.iter().map(|e| (&**e, &VALUES[..])).collect();
    for round in 0..2 {
        let made: Vec<bool> = compiler.prepare(&wanted).iter().map(Result::is_ok).collect();
        assert_eq!(made, [true, false, true]);
        assert_eq!(compiled.load(Ordering::Relaxed), 3 + round, "only what failed is tried again");
    }
}

#[test]
fn a_panic_reaches_the_caller_and_nobody_else() {
    let (compiler, _) = compiler(|program| {
        assert!(program.inst_count() != 4, "planned");
        Ok(())
    });
    let mut cache = KernelCache::default();
    let entries: Vec<_> = (1..=3).map(|terms| entry(&mut cache, terms)).collect();
    let wanted: Vec<_> = entries.iter().map(|e| (&**e, &VALUES[..])).collect();
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| compiler.prepare(&wanted)));
    let panic = panic.err().expect("a panic");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"planned"));
    assert!(compiler.prepare(&[wanted[0], wanted[2]]).iter().all(Result::is_ok));
}

#[test]
fn kernels_launched_longest_ago_lose_their_code_and_get_it_back() {
    let (compiler, compiled) = compiler(|_| Ok(()));
    let mut cache = KernelCache::default();
    let entries: Vec<_> = (1..=8).map(|terms| entry(&mut cache, terms)).collect();
    let launch = |k: usize| {
        let made = compiler.prepare(&[(&entries[k], &VALUES)]).pop().expect("one");
        made.expect("it compiles")
    };
    let in_flight = Arc::clone(&launch(0).loaded.kernel);
    (1..8).for_each(|k| drop(launch(k)));
    launch(1);
    assert!(cache.unload(compiler.loaded(), 8).is_empty(), "eight are allowed");
    drop(cache.unload(compiler.loaded(), 7));
    assert_eq!(compiler.loaded(), 5, "three quarters are left");
    let missed: Vec<usize> = (0..8).filter(|&k| launch(k).cache != CacheOutcome::Hit).collect();
    assert_eq!(missed, [2, 3, 4], "0 is in flight, 1 was launched again");
    assert_eq!(compiled.load(Ordering::Relaxed), 11);
    drop(in_flight);
    drop(cache.unload(compiler.loaded(), 4));
    assert_eq!(compiler.loaded(), 3);
    drop((cache, entries));
    assert_eq!(compiler.loaded(), 0);
}
