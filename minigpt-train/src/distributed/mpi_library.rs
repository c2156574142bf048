//! MPI's C library, loaded while the program runs: the one file of this crate that calls C.
//!
//! The makes agree on functions, not on types. Open MPI's handles are pointers to what it exports; MPICH's are `int`
//! constants; those of MPI 5's standard ABI are small constants in pointers. So there are two tables of functions, and
//! three sets of handles. All that travels is bytes, and every count is checked before C sees it.
#![expect(unsafe_code, reason = "MPI is a library of C functions")]

use super::MpiError;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{null_mut, without_provenance_mut};

/// What a handle is for Open MPI and for the standard ABI.
type Pointer = *mut c_void;
/// Where the text of a version or an error fits, for every make.
const TEXT: usize = 8192;

/// A loaded library, before or after its start.
pub struct MpiLibrary {
    calls: Calls,
    thread: std::thread::ThreadId,
    // Last: what the tables point to must be there as long as they are.
    _library: Library,
}

enum Calls {
    Pointers(Table<Pointer>),
    Numbers(Table<c_int>),
}

// SAFETY: the handles are constants, or addresses of objects that live as long as the library; nothing of them belongs
// to a thread. That only one thread calls MPI is held by `MpiLibrary::call`.
unsafe impl Send for Calls {}
// SAFETY: as above.
unsafe impl Sync for Calls {}

#[cfg(unix)]
type Library = libloading::os::unix::Library;
#[cfg(not(unix))]
type Library = libloading::Library;

/// The functions that are called, for one type of handles.
struct Table<H> {
    world: H,
    byte: H,
    errors_return: H,
    funneled: c_int,
    init_thread: unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
    library_version: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int,
    set_errhandler: unsafe extern "C" fn(H, H) -> c_int,
    error_string: unsafe extern "C" fn(c_int, *mut c_char, *mut c_int) -> c_int,
    rank: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    size: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    abort: unsafe extern "C" fn(H, c_int) -> c_int,
    bcast: unsafe extern "C" fn(*mut c_void, c_int, H, c_int, H) -> c_int,
    allgatherv:
        unsafe extern "C" fn(*const c_void, c_int, H, *mut c_void, *const c_int, *const c_int, H, H) -> c_int,
    alltoallv: unsafe extern "C" fn(
        *const c_void,
        *const c_int,
        *const c_int,
        H,
        *mut c_void,
        *const c_int,
        *const c_int,
        H,
        H,
    ) -> c_int,
}

/// The same call of either table.
macro_rules! call {
    ($self:ident, $table:ident => $call:expr) => {
        match &$self.calls {
            Calls::Pointers($table) => $self.checked($call),
            Calls::Numbers($table) => $self.checked($call),
        }
    };
}

impl MpiLibrary {
    /// Loads a library by its name or path.
    pub fn load(name: &Path) -> Result<Self, MpiError> {
        let library = open(name).map_err(|error| loader_error(&error))?;
        let calls = calls(&library, name).map_err(|error| loader_error(&error))?;
        Ok(Self { calls, thread: std::thread::current().id(), _library: library })
    }

    /// Starts MPI; errors are returned from then on.
    ///
    /// # Errors
    /// MPI can't be started, or not in a process whose other threads compute (`MPI_THREAD_FUNNELED`).
    pub fn start(&self) -> Result<(), MpiError> {
        // Below every level, so that a library that says nothing is not taken at its word.
        let mut provided = -1;
        // SAFETY: MPI may be started without arguments, and writes one number.
        call!(self, t => unsafe { (t.init_thread)(null_mut(), null_mut(), t.funneled, &raw mut provided) })?;
        let needed = match &self.calls {
            Calls::Pointers(t) => t.funneled,
            Calls::Numbers(t) => t.funneled,
        };
        // The levels are ordered, in every make.
        if provided < needed {
            self.finish();
            return Err(MpiError::ThreadLevel { provided, needed });
        }
        // SAFETY: a communicator and an error handler of this library.
        call!(self, t => unsafe { (t.set_errhandler)(t.world, t.errors_return) })
    }

    /// Ends MPI; nothing else may be called then.
    pub fn finish(&self) {
        // SAFETY: it was started, and whoever drops it calls nothing more.
        let _ = call!(self, t => unsafe { (t.finalize)() });
    }

    /// The name and version of the library.
    pub fn version(&self) -> String {
        self.text(|text, length| {
            // SAFETY: the text has room for the longest version of any make.
            call!(self, t => unsafe { (t.library_version)(text, length) })
        })
    }

    /// The number of this rank.
    pub fn rank(&self) -> Result<usize, MpiError> {
        let mut rank = 0;
        // SAFETY: it writes one number.
        call!(self, t => unsafe { (t.rank)(t.world, &raw mut rank) })?;
        usize::try_from(rank).map_err(|error| MpiError::Library(error.to_string()))
    }

    /// The number of ranks.
    pub fn size(&self) -> Result<usize, MpiError> {
        let mut size = 0;
        // SAFETY: it writes one number.
        call!(self, t => unsafe { (t.size)(t.world, &raw mut size) })?;
        usize::try_from(size).map_err(|error| MpiError::Library(error.to_string()))
    }

    /// Sends the bytes of rank 0 to all ranks; all pass buffers of the same size.
    pub fn broadcast(&self, bytes: &mut [u8]) -> Result<(), MpiError> {
        let (start, count) = (bytes.as_mut_ptr().cast(), count(bytes.len())?);
        // SAFETY: `count` bytes may be read or written at `start`.
        call!(self, t => unsafe { (t.bcast)(start, count, t.byte, 0, t.world) })
    }

    /// Gathers the bytes of all ranks on every rank: `counts` of each, one rank after another.
    pub fn all_gather(&self, own: &[u8], counts: &[usize], all: &mut [u8]) -> Result<(), MpiError> {
        let (counts, places, whole) = layout(counts)?;
        if whole != all.len() {
            return Err(MpiError::BufferSize);
        }
        let (given, length, taken) = (own.as_ptr().cast(), count(own.len())?, all.as_mut_ptr().cast());
        let (counts, places) = (counts.as_ptr(), places.as_ptr());
        // SAFETY: `length` bytes at `given` may be read; counts and places are one for each rank, and all of them are
        // within `all`, which nobody else uses.
        call!(self, t => unsafe {
            (t.allgatherv)(given, length, t.byte, taken, counts, places, t.byte, t.world)
        })
    }

    /// Every rank gives bytes to each: `given_counts` to each, `taken_counts` from each, one rank after another.
    pub fn all_to_all(
        &self,
        (given, given_counts): (&[u8], &[usize]),
        (taken, taken_counts): (&mut [u8], &[usize]),
    ) -> Result<(), MpiError> {
        let (given_counts, given_places, whole_given) = layout(given_counts)?;
        let (taken_counts, taken_places, whole_taken) = layout(taken_counts)?;
        if whole_given != given.len() || whole_taken != taken.len() {
            return Err(MpiError::BufferSize);
        }
        let (given, taken) = (given.as_ptr().cast(), taken.as_mut_ptr().cast());
        let (given_counts, given_places) = (given_counts.as_ptr(), given_places.as_ptr());
        let (taken_counts, taken_places) = (taken_counts.as_ptr(), taken_places.as_ptr());
        // SAFETY: counts and places are one for each rank; all of them are within `given`, which is read, and `taken`,
        // which is written.
        call!(self, t => unsafe {
            (t.alltoallv)(
                given, given_counts, given_places, t.byte, taken, taken_counts, taken_places, t.byte, t.world,
            )
        })
    }

    /// Ends all ranks, and this one at once. From another thread than the one that calls MPI, which may be waiting in it
    /// for ever, only this process ends; its launcher ends the others.
    pub fn abort(&self) {
        if std::thread::current().id() == self.thread {
            // SAFETY: a communicator of this library.
            let _ = call!(self, t => unsafe { (t.abort)(t.world, 1) });
        }
        #[cfg(unix)]
        // SAFETY: it does not return; what would be run at an ordinary exit might wait for MPI.
        unsafe {
            _exit(1)
        };
        #[cfg(not(unix))]
        std::process::abort();
    }

    /// Nothing, or what an error's number means.
    fn checked(&self, code: c_int) -> Result<(), MpiError> {
        if code == 0 {
            return Ok(());
        }
        let words = self.text(|text, length| match &self.calls {
            // SAFETY: the text has room for the longest message of any make.
            Calls::Pointers(t) => self.ignored(unsafe { (t.error_string)(code, text, length) }),
            // SAFETY: as above.
            Calls::Numbers(t) => self.ignored(unsafe { (t.error_string)(code, text, length) }),
        });
        Err(MpiError::Library(words))
    }

    fn ignored(&self, _code: c_int) -> Result<(), MpiError> {
        Ok(())
    }

    fn text(&self, write: impl FnOnce(*mut c_char, *mut c_int) -> Result<(), MpiError>) -> String {
        let (mut text, mut length) = (vec![0u8; TEXT + 1], 0);
        let _ = write(text.as_mut_ptr().cast(), &raw mut length);
        // The last byte stays 0, whatever was written.
        text[TEXT] = 0;
        let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
        text.trim_matches(['\0', '\n', ' ']).to_owned()
    }
}

/// The system's message, which the loader's hides.
fn loader_error(error: &dyn std::error::Error) -> MpiError {
    MpiError::Library(error.source().map_or_else(|| error.to_string(), ToString::to_string))
}

#[cfg(unix)]
unsafe extern "C" {
    fn _exit(status: c_int) -> !;
}

#[cfg(unix)]
fn open(name: &Path) -> Result<Library, libloading::Error> {
    use libloading::os::unix::{RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: a library of the system, or one that the person names; what it does when loaded is as trusted as this
    // program. Its plug-ins look for its symbols among the global ones.
    unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) }
}

#[cfg(not(unix))]
fn open(name: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: a library of the system, or one that the person names, and as trusted as this program.
    unsafe { Library::new(name) }
}

/// The functions and handles of a library: Open MPI's by what it exports, the standard ABI's by its name.
fn calls(library: &Library, name: &Path) -> Result<Calls, libloading::Error> {
    let exported = |symbol: &[u8]| -> Result<Pointer, libloading::Error> {
        // SAFETY: only the address of the object is used.
        let symbol = unsafe { library.get::<*mut c_void>(symbol) }?;
        #[cfg(unix)]
        return Ok(symbol.into_raw());
        #[cfg(not(unix))]
        // SAFETY: as above.
        return Ok(unsafe { symbol.into_raw() }.into_raw() as Pointer);
    };
    if let Ok(world) = exported(b"ompi_mpi_comm_world\0") {
        let (byte, errors) = (exported(b"ompi_mpi_byte\0")?, exported(b"ompi_mpi_errors_return\0")?);
        return Ok(Calls::Pointers(table(library, [world, byte, errors], 1)?));
    }
    if name.to_string_lossy().contains("mpi_abi") {
        let handles = [0x101, 0x247, 0x143].map(without_provenance_mut);
        return Ok(Calls::Pointers(table(library, handles, 1024)?));
    }
    Ok(Calls::Numbers(table(library, [0x4400_0000, 0x4c00_010d, 0x5400_0001], 1)?))
}

fn table<H>(library: &Library, handles: [H; 3], funneled: c_int) -> Result<Table<H>, libloading::Error> {
    let [world, byte, errors_return] = handles;
    // SAFETY: these are MPI's functions with MPI's signatures for this type of handles, and the table goes before the
    // library does.
    unsafe {
        Ok(Table {
            world,
            byte,
            errors_return,
            funneled,
            init_thread: *library.get(b"MPI_Init_thread\0")?,
            finalize: *library.get(b"MPI_Finalize\0")?,
            library_version: *library.get(b"MPI_Get_library_version\0")?,
            set_errhandler: *library.get(b"MPI_Comm_set_errhandler\0")?,
            error_string: *library.get(b"MPI_Error_string\0")?,
            rank: *library.get(b"MPI_Comm_rank\0")?,
            size: *library.get(b"MPI_Comm_size\0")?,
            abort: *library.get(b"MPI_Abort\0")?,
            bcast: *library.get(b"MPI_Bcast\0")?,
            allgatherv: *library.get(b"MPI_Allgatherv\0")?,
            alltoallv: *library.get(b"MPI_Alltoallv\0")?,
        })
    }
}

/// Numbers as the bytes that they are.
pub fn bytes_of(numbers: &[f32]) -> &[u8] {
    // SAFETY: a number is four bytes without gaps, and bytes need no alignment.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

/// The same, to be written.
pub fn bytes_of_mut(numbers: &mut [f32]) -> &mut [u8] {
    // SAFETY: as above, and any four bytes are a number.
    unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), size_of_val(numbers)) }
}

/// A count as MPI takes it.
fn count(bytes: usize) -> Result<c_int, MpiError> {
    c_int::try_from(bytes).map_err(|_| MpiError::TooLong { bytes })
}

/// Counts as MPI takes them, where each begins, and how many there are in all.
fn layout(counts: &[usize]) -> Result<(Vec<c_int>, Vec<c_int>, usize), MpiError> {
    let (mut places, mut whole) = (Vec::new(), 0);
    for bytes in counts {
        places.push(count(whole)?);
        whole += bytes;
    }
    let counts = counts.iter().map(|&bytes| count(bytes)).collect::<Result<_, _>>()?;
    Ok((counts, places, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_for_mpi_is_refused_before_it_sees_it() {
        assert_eq!(layout(&[3, 0, 5]), Ok((vec![3, 0, 5], vec![0, 3, 3], 8)));
        assert!(layout(&[1 << 31]).is_err());
        assert!(layout(&[1 << 30, 1 << 30, 1]).is_err());
        assert!(count(i32::MAX as usize).is_ok());
    }

    /// A library of MPI in Rust that starts with one thread level or another.
    #[cfg(unix)]
    mod fake {
        use super::super::{Calls, Library, MpiLibrary, Table};
        use std::ffi::{c_char, c_int, c_void};
        use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

        pub static PROVIDED: AtomicI32 = AtomicI32::new(0);
        pub static FINISHED: AtomicBool = AtomicBool::new(false);

        extern "C" fn init(
            _: *mut c_int,
            _: *mut *mut *mut c_char,
            _wanted: c_int,
            provided: *mut c_int,
        ) -> c_int {
            // SAFETY: the caller gives room for one number.
            unsafe { provided.write(PROVIDED.load(Ordering::Relaxed)) };
            0
        }
        extern "C" fn finalize() -> c_int {
            FINISHED.store(true, Ordering::Relaxed);
            0
        }
        extern "C" fn text(_: *mut c_char, _: *mut c_int) -> c_int {
            0
        }
        extern "C" fn error_string(_: c_int, _: *mut c_char, _: *mut c_int) -> c_int {
            0
        }
        extern "C" fn two(_: c_int, _: c_int) -> c_int {
            0
        }
        extern "C" fn number(_: c_int, _: *mut c_int) -> c_int {
            0
        }
        extern "C" fn bcast(_: *mut c_void, _: c_int, _: c_int, _: c_int, _: c_int) -> c_int {
            0
        }
        extern "C" fn allgatherv(
            _: *const c_void,
            _: c_int,
            _: c_int,
            _: *mut c_void,
            _: *const c_int,
            _: *const c_int,
            _: c_int,
            _: c_int,
        ) -> c_int {
            0
        }
        extern "C" fn alltoallv(
            _: *const c_void,
            _: *const c_int,
            _: *const c_int,
            _: c_int,
            _: *mut c_void,
            _: *const c_int,
            _: *const c_int,
            _: c_int,
            _: c_int,
        ) -> c_int {
            0
        }

        pub fn library() -> MpiLibrary {
            let table = Table {
                world: 0,
                byte: 0,
                errors_return: 0,
                funneled: 1,
                init_thread: init,
                finalize,
                library_version: text,
                set_errhandler: two,
                error_string,
                rank: number,
                size: number,
                abort: two,
                bcast,
                allgatherv,
                alltoallv,
            };
            let thread = std::thread::current().id();
            MpiLibrary { calls: Calls::Numbers(table), thread, _library: Library::this() }
        }
    }

    /// Regression: a library without threads was used by a program with threads.
    #[cfg(unix)]
    #[test]
    fn a_library_that_allows_no_other_threads_is_refused() {
        use std::sync::atomic::Ordering;
        for (provided, is_enough) in [(-1, false), (0, false), (1, true), (3, true)] {
            fake::PROVIDED.store(provided, Ordering::Relaxed);
            fake::FINISHED.store(false, Ordering::Relaxed);
            let started = fake::library().start();
            assert_eq!(started.is_ok(), is_enough, "{provided}: {started:?}");
            assert_eq!(fake::FINISHED.load(Ordering::Relaxed), !is_enough, "{provided}");
            let error = started.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(is_enough || error.contains("MPI_THREAD_FUNNELED"), "{error}");
        }
    }

    #[test]
    fn a_library_that_is_none_says_why() {
        let error = MpiLibrary::load(Path::new("libno-such-mpi.so.40")).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("libno-such-mpi"), "{error}");
    }
}
