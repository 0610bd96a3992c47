//! One batch of programs, in a process of its own. Each line that it prints says one thing to the supervisor.

use std::io::Write as _;

use crate::Options;
use crate::kernels;
use crate::random_programs::coverage::Coverage;
use crate::random_programs::{Found, runner, search, text};

/// What a line starts with.
pub(crate) const AT: &str = "at ";
pub(crate) const FOUND: &str = "found ";
pub(crate) const COVERED: &str = "covered ";

/// One program in so many is of the kernel language.
const KERNELS: u64 = 8;

/// Runs the batch.
pub(crate) fn run(options: &Options) {
    // A panic is an outcome like others and stands in what is reported.
    std::panic::set_hook(Box::new(|_| {}));
    for number in options.first..options.first + options.batch {
        say(AT, &number.to_string());
        let seed = seed(options.seed, number);
        if number % KERNELS == 0 {
            if let Err(why) = kernels::check(seed) {
                let origin = format!("kernel program {number} of seed {}: {why}", options.seed);
                say(FOUND, &origin.replace('\n', " | "));
            }
            continue;
        }
        let mut coverage = Coverage::default();
        let outcome = search(&mut runner(seed, 1), number as usize, &mut coverage);
        let covered: Vec<String> =
            coverage.ops().iter().map(|(op, count)| format!("{}={count}", op.name())).collect();
        say(COVERED, &covered.join(" "));
        if let Err(Found { program, why }) = outcome {
            let name = format!("seed-{}-{number}.program", options.seed);
            let origin = format!("program {number} of seed {}: {why}", options.seed);
            let path = options.corpus.join(name);
            std::fs::write(&path, text::write(&program, &origin)).expect("the corpus can be written");
            say(FOUND, &format!("{}: {}", path.display(), origin.replace('\n', " ")));
        }
    }
}

fn say(what: &str, text: &str) {
    let _ = writeln!(std::io::stdout(), "{what}{text}");
}

/// The seed of one program.
fn seed(seed: u64, number: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes
}
