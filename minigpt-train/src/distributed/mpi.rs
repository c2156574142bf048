//! Ranks that MPI has launched: `mpirun`, `srun`, Kubernetes' MPI operator. The library is found and loaded when a
//! launcher is there, and never otherwise.

use super::mpi_library::{MpiLibrary, bytes_of, bytes_of_mut};
use super::{AbortReason, Exchange, LauncherKind, MpiError, RankError, Terms};
use crate::error::{Error, Result};
use std::env;
use std::path::{Path, PathBuf};

/// The longest message: MPI counts in `int`.
const LONGEST: usize = 1 << 30;

/// The names of the libraries of each make, on Linux and macOS.
const OPEN_MPI: [&str; 2] = ["libmpi.so.40", "libmpi.40.dylib"];
const MPICH: [&str; 3] = ["libmpi.so.12", "libmpich.so.12", "libmpi.12.dylib"];
const STANDARD: [&str; 2] = ["libmpi_abi.so.1", "libmpi_abi.so.0"];

/// The program that started this process as one of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    kind: LauncherKind,
    /// The number of processes that it started, as it reports.
    size: Option<usize>,
    libraries: Vec<PathBuf>,
}

impl Launcher {
    /// The launcher of this process, by its environment; `None` if it started a single process.
    pub fn of_this_process() -> Option<Self> {
        let all = [&OPEN_MPI[..], &MPICH, &STANDARD].concat();
        let mpich_first = [&MPICH[..], &STANDARD, &OPEN_MPI].concat();
        let size = |name| env::var(name).ok().and_then(|size| size.parse::<usize>().ok());
        let (kind, size, libraries) = if let Some(size) = size("OMPI_COMM_WORLD_SIZE") {
            (LauncherKind::OpenMpi, Some(size), all)
        } else if let Some(size) = size("PMI_SIZE") {
            (LauncherKind::MpichOrSlurm, Some(size), mpich_first)
        } else if env::var_os("PMIX_RANK").is_some() {
            (LauncherKind::Pmix, size("SLURM_STEP_NUM_TASKS"), all)
        } else {
            return None;
        };
        let libraries = match env::var_os("MINIGPT_MPI_LIBRARY") {
            Some(library) => vec![library.into()],
            None => libraries.into_iter().map(PathBuf::from).collect(),
        };
        (size != Some(1)).then_some(Self { kind, size, libraries })
    }

    /// The number of processes on this machine, if the launcher reports it.
    pub fn ranks_here() -> Option<usize> {
        let names = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"];
        names.iter().find_map(|name| env::var(name).ok()?.parse().ok()).filter(|&ranks| ranks > 0)
    }

    /// The first of the libraries that can be loaded.
    fn library(&self) -> Result<(MpiLibrary, &Path)> {
        let mut tried = Vec::new();
        for name in &self.libraries {
            match MpiLibrary::load(name) {
                Ok(library) => return Ok((library, name)),
                Err(error) => tried.push(error.to_string()),
            }
        }
        Err(MpiError::NoLibrary { launcher: self.kind, tried }.into())
    }
}

/// One of the processes that MPI has launched.
pub struct MpiRank {
    library: MpiLibrary,
    version: String,
    rank: usize,
    ranks: usize,
    longest: usize,
    say: fn(&RankError),
}

impl MpiRank {
    /// Loads MPI's library and starts it. Messages of [`Exchange::abort`] go to `say` before everything ends.
    ///
    /// # Errors
    /// No library, or one of another make than the launcher's.
    pub fn start(launcher: &Launcher, say: fn(&RankError)) -> Result<Self> {
        let (library, name) = launcher.library()?;
        library.start()?;
        let (rank, ranks) = (library.rank()?, library.size()?);
        let version = library.version();
        let version: Vec<&str> = version.lines().next().unwrap_or_default().split_whitespace().collect();
        let version = version.join(" ");
        if let Some(size) = launcher.size.filter(|&size| size != ranks) {
            let (launcher, library) = (launcher.kind, name.to_owned());
            return Err(MpiError::OtherImplementation {
                launcher,
                started: size,
                library,
                version,
                known: ranks,
            }
            .into());
        }
        Ok(Self { library, version, rank, ranks, longest: LONGEST, say })
    }

    /// The name and version of the library.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Bytes of all ranks, `lengths` of each, in messages that are not too long.
    fn gather_in_rounds(&self, own: &[u8], lengths: &[usize]) -> Result<Vec<Vec<u8>>> {
        let most = (self.longest / self.ranks).max(1);
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut all: Vec<Vec<u8>> = lengths.iter().map(|&length| Vec::with_capacity(length)).collect();
        for from in (0..longest).step_by(most) {
            let counts: Vec<usize> =
                lengths.iter().map(|length| length.saturating_sub(from).min(most)).collect();
            let mut received = vec![0; counts.iter().sum()];
            let own = &own[from.min(own.len())..(from + most).min(own.len())];
            self.library.all_gather(own, &counts, &mut received).map_err(gone)?;
            let mut rest = &received[..];
            for (all, &count) in all.iter_mut().zip(&counts) {
                let (bytes, after) = rest.split_at(count);
                all.extend_from_slice(bytes);
                rest = after;
            }
        }
        Ok(all)
    }
}

impl Drop for MpiRank {
    fn drop(&mut self) {
        self.library.finish();
    }
}

impl Exchange for MpiRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn reduce_scatter(&self, terms: &Terms, sum: &mut [f32]) -> Result<()> {
        let bytes = |counts: Vec<usize>| counts.into_iter().map(|count| 4 * count).collect::<Vec<_>>();
        let counts = terms.received_by(self.rank);
        let mut received = vec![0f32; counts.iter().sum()];
        let sent = (bytes_of(terms.numbers), &bytes(terms.sent_by(self.rank))[..]);
        self.library.all_to_all(sent, (bytes_of_mut(&mut received), &bytes(counts))).map_err(gone)?;
        terms.add(self.rank, &mut received, sum);
        Ok(())
    }

    fn all_gather(&self, own: &[f32], lengths: &[usize], all: &mut [f32]) -> Result<()> {
        let counts: Vec<usize> = lengths.iter().map(|length| 4 * length).collect();
        self.library.all_gather(bytes_of(own), &counts, bytes_of_mut(all)).map_err(gone)
    }

    fn gather(&self, record: &[u8]) -> Result<Vec<Vec<u8>>> {
        let own = (record.len() as u64).to_le_bytes();
        let lengths = self.gather_in_rounds(&own, &vec![own.len(); self.ranks])?;
        let lengths =
            lengths.iter().map(|length| length.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)));
        self.gather_in_rounds(record, &lengths.map(|length| length as usize).collect::<Vec<_>>())
    }

    fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut length = (bytes.len() as u64).to_le_bytes();
        self.library.broadcast(&mut length).map_err(gone)?;
        bytes.resize(u64::from_le_bytes(length) as usize, 0);
        bytes.chunks_mut(self.longest).try_for_each(|part| self.library.broadcast(part)).map_err(gone)
    }

    fn abort(&self, reason: AbortReason) {
        (self.say)(&RankError::Aborted { rank: self.rank, reason });
        self.library.abort();
    }
}

fn gone(problem: MpiError) -> Error {
    RankError::Unreachable(problem).into()
}
