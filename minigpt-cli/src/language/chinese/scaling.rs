//! Messages of minigpt-scaling.

use super::Chinese;
use crate::language::translated;
use minigpt_scaling::Error;

impl Chinese for Error {
    fn chinese(&self) -> String {
        translated(&self.to_string()).into_owned()
    }
}
