//! What this CPU can do: the table of micro-kernels that all other code calls, chosen once.
//!
//! A row of the table is a field of [`Kernels`]; an instruction set is one `static` below that names a function for each row.
//! Intrinsics and `cfg(target_arch)` appear here and in the `micro/` folders only (a test holds that). A new instruction set is
//! a variant of [`InstructionSet`], a file in `micro/` and a table below.

use crate::attention::micro as attention;
use crate::gemm::micro as gemm;
use crate::quant::micro as quant;
use std::sync::OnceLock;

/// Whether every CPU that this build runs on multiplies and adds in one instruction, with one rounding.
pub const ALWAYS_FMA: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));

/// The instruction sets that have micro-kernels of their own. Each includes those before it of the same architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstructionSet {
    /// Plain Rust, vectorized by the compiler for whatever the build assumes.
    Portable,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F.
    Avx512,
    /// AVX-512 BW and VNNI: dot products of 8-bit integers.
    Avx512Vnni,
}

/// The micro-kernels of one instruction set.
pub struct Kernels {
    /// The instruction set that all of them need at most.
    pub set: InstructionSet,
    /// Matrix products in floating point.
    pub gemm: gemm::Kernels,
    /// Attention to keys and values in f16.
    pub attention: attention::Kernels,
    /// Products of integers: quantised weights and 8-bit activations.
    pub quant: quant::Kernels,
}

static PORTABLE: Kernels = Kernels {
    set: InstructionSet::Portable,
    gemm: gemm::portable::KERNELS,
    attention: attention::portable::KERNELS,
    quant: quant::portable::KERNELS,
};

#[cfg(target_arch = "x86_64")]
static AVX2: Kernels = Kernels {
    set: InstructionSet::Avx2,
    gemm: gemm::avx2::KERNELS,
    attention: attention::avx2::KERNELS,
    quant: quant::avx2::KERNELS,
};

#[cfg(target_arch = "x86_64")]
static AVX512: Kernels = Kernels {
    set: InstructionSet::Avx512,
    gemm: gemm::avx512::KERNELS,
    attention: attention::avx2::KERNELS,
    quant: quant::avx2::KERNELS,
};

#[cfg(target_arch = "x86_64")]
static AVX512_VNNI: Kernels = Kernels {
    set: InstructionSet::Avx512Vnni,
    gemm: gemm::avx512::KERNELS,
    attention: attention::avx2::KERNELS,
    quant: quant::vnni::KERNELS,
};

impl Kernels {
    /// The micro-kernels of an instruction set, if this CPU has it.
    pub fn of(set: InstructionSet) -> Option<&'static Self> {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = || has!("avx2") && has!("fma") && has!("f16c");
            let avx512 = || avx2() && has!("avx512f");
            let vnni = || avx512() && has!("avx512bw") && has!("avx512vnni");
            match set {
                InstructionSet::Portable => Some(&PORTABLE),
                InstructionSet::Avx2 => avx2().then_some(&AVX2),
                InstructionSet::Avx512 => avx512().then_some(&AVX512),
                InstructionSet::Avx512Vnni => vnni().then_some(&AVX512_VNNI),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        (set == InstructionSet::Portable).then_some(&PORTABLE)
    }

    /// Those of an instruction set, or of the best one below it that this CPU has.
    pub fn up_to(set: InstructionSet) -> &'static Self {
        use InstructionSet::*;
        let descending = [Avx512Vnni, Avx512, Avx2].into_iter().filter(|known| *known <= set);
        descending.filter_map(Self::of).next().unwrap_or(&PORTABLE)
    }
}

/// The micro-kernels of the best instruction set of this CPU, or the portable ones if the environment variable
/// `MINIGPT_FORCE_PORTABLE` is set.
pub fn kernels() -> &'static Kernels {
    static KERNELS: OnceLock<&Kernels> = OnceLock::new();
    KERNELS.get_or_init(|| {
        if forced_portable() { &PORTABLE } else { Kernels::up_to(InstructionSet::Avx512Vnni) }
    })
}

fn forced_portable() -> bool {
    std::env::var_os("MINIGPT_FORCE_PORTABLE").is_some_and(|value| value != "0")
}

/// What `simd::vectorized` compiles loops for.
pub fn pulp_arch() -> pulp::Arch {
    static ARCH: OnceLock<pulp::Arch> = OnceLock::new();
    *ARCH.get_or_init(|| if forced_portable() { pulp::Arch::Scalar } else { pulp::Arch::new() })
}

/// Makes a test for each instruction set of every function in it. Tests for those that this machine lacks are reported as
/// ignored.
#[cfg(test)]
macro_rules! for_each_instruction_set {
    ($($(#[$attribute:meta])* fn $test:ident($kernels:ident) $body:block)*) => {$(
        $(#[$attribute])*
        fn $test($kernels: &'static $crate::cpu::Kernels) $body

        mod $test {
            use $crate::cpu::{InstructionSet, Kernels};

            fn run(set: InstructionSet) {
                let kernels = Kernels::of(set);
                super::$test(kernels.expect("the tests were built on a machine that has this instruction set"));
            }

            #[test]
            fn portable() {
                run(InstructionSet::Portable);
            }

            #[test]
            #[cfg_attr(not(host_avx2), ignore = "this CPU has no AVX2")]
            fn avx2() {
                run(InstructionSet::Avx2);
            }

            #[test]
            #[cfg_attr(not(host_avx512), ignore = "this CPU has no AVX-512")]
            fn avx512() {
                run(InstructionSet::Avx512);
            }

            #[test]
            #[cfg_attr(not(host_avx512_vnni), ignore = "this CPU has no AVX-512 VNNI")]
            fn avx512_vnni() {
                run(InstructionSet::Avx512Vnni);
            }
        }
    )*};
}
#[cfg(test)]
pub(crate) use for_each_instruction_set;
