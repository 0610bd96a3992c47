//! The processor that code is made for.

use inkwell::OptimizationLevel;
use inkwell::targets::{
    CodeModel, InitializationConfig, RelocMode, Target as LlvmTarget, TargetMachine, TargetMachineOptions,
    TargetTriple,
};
use jit_core::backend::DeviceKind;
use jit_core::error::Error;

/// Which processor code is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Processor {
    /// The one this process runs on.
    #[default]
    Host,
    /// Any with AVX2, FMA and F16C (the x86-64-v3 level), so that the text of programs is the same everywhere.
    X86V3,
    /// Any with AVX-512 F, BW, CD, DQ and VL (the x86-64-v4 level).
    X86V4,
}

/// A processor as LLVM describes it, and the facts that code generation asks for.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    triple: String,
    pub(crate) cpu: String,
    features: String,
    /// Has a fused multiply-add.
    pub(crate) fma: bool,
    /// Converts between f16 and f32.
    pub(crate) f16: bool,
    /// Has masked loads and stores of elements of four and eight bytes.
    pub(crate) masks_words: bool,
    /// Has masked loads and stores of elements of one and two bytes.
    pub(crate) masks_bytes: bool,
    /// Lanes of a vector, unless asked for otherwise.
    pub(crate) width: u32,
}

impl Target {
    pub(crate) fn new(processor: Processor) -> Result<Target, Error> {
        initialize();
        let named = |cpu: &str, width| Target {
            triple: "x86_64-unknown-linux-gnu".to_owned(),
            cpu: cpu.to_owned(),
            features: String::new(),
            fma: true,
            f16: true,
            masks_words: true,
            masks_bytes: width == 16,
            width,
        };
        match processor {
            Processor::Host => Ok(host()),
            _ if cfg!(not(target_arch = "x86_64")) => Err(no_target("it is no x86-64 processor")),
            Processor::X86V3 => Ok(named("x86-64-v3", 8)),
            Processor::X86V4 => Ok(named("x86-64-v4", 16)),
        }
    }

    /// Whether code for that processor runs on this host.
    pub(crate) fn runs_here(processor: Processor) -> Result<(), Error> {
        let needed: &[&str] = match processor {
            Processor::Host => &[],
            Processor::X86V3 => &["avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"],
            Processor::X86V4 => {
                &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "bmi2", "f16c", "fma"]
            }
        };
        let features = TargetMachine::get_host_cpu_features().to_string();
        match needed.iter().find(|name| !has(&features, name)) {
            None => Ok(()),
            Some(missing) => {
                let why = format!("code for {processor:?} needs `{missing}`, which this processor has not");
                Err(Error::NoDevice { kind: DeviceKind::Cpu, why })
            }
        }
    }

    /// A code generator for it.
    pub(crate) fn machine(&self) -> Result<Machine, Error> {
        let triple = TargetTriple::create(&self.triple);
        let target = LlvmTarget::from_triple(&triple).map_err(|e| no_target(&e.to_string()))?;
        // `Less` makes the same code as the higher levels here, in less time.
        let options = TargetMachineOptions::new()
            .set_cpu(&self.cpu)
            .set_features(&self.features)
            .set_level(OptimizationLevel::Less)
            .set_reloc_mode(RelocMode::PIC)
            .set_code_model(CodeModel::Small);
        target
            .create_target_machine_from_options(&triple, options)
            .map(Machine)
            .ok_or_else(|| no_target("LLVM has no code generator for it"))
    }
}

/// A code generator, used by one thread at a time.
pub(crate) struct Machine(TargetMachine);

// SAFETY: LLVM keeps nothing of a code generator in the thread that made or used it; here it is only ever lent to one
// thread at a time, since it is not `Sync`.
unsafe impl Send for Machine {}

impl Machine {
    pub(crate) fn get(&self) -> &TargetMachine {
        &self.0
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // All else follows from these.
        write!(f, "{} {} {}", self.triple, self.cpu, self.features)
    }
}

fn host() -> Target {
    let features = TargetMachine::get_host_cpu_features().to_string();
    let has = |name: &str| has(&features, name);
    let aarch64 = cfg!(target_arch = "aarch64");
    let avx512 = ["avx512f", "avx512bw", "avx512dq", "avx512vl"].into_iter().all(has);
    Target {
        triple: TargetMachine::get_default_triple().as_str().to_string_lossy().into_owned(),
        cpu: TargetMachine::get_host_cpu_name().to_string(),
        fma: aarch64 || has("fma"),
        f16: aarch64 || has("f16c"),
        masks_words: has("avx2"),
        masks_bytes: avx512 && has("avx512bw"),
        width: if avx512 {
            16
        } else if has("avx2") {
            8
        } else {
            4
        },
        features,
    }
}

fn has(features: &str, name: &str) -> bool {
    features.split(',').any(|f| f.strip_prefix('+') == Some(name))
}

fn initialize() {
    #[cfg(target_arch = "x86_64")]
    LlvmTarget::initialize_x86(&InitializationConfig::default());
    #[cfg(target_arch = "aarch64")]
    LlvmTarget::initialize_aarch64(&InitializationConfig::default());
}

fn no_target(why: &str) -> Error {
    Error::NoDevice { kind: DeviceKind::Cpu, why: format!("no code can be made for this processor: {why}") }
}
