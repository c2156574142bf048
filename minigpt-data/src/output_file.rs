//! A single file that appears whole or not at all.

use crate::error::{Error, Result};
use std::fs;
use std::io::Write;
use std::path::Path;

/// Writes a file in one step: another one of that name is replaced, never half overwritten.
///
/// # Errors
/// A place that can't be written.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |e| Error::io("write", path, e);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".minigpt-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    file.persist(path).map_err(|e| failed(e.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.svg");
        write_file(&path, b"a long first version").unwrap();
        write_file(&path, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(write_file(&dir.path().join("no/such/a.svg"), b"x").is_err());
    }
}
