//! Errors on their way through DataFusion and back.

use std::error::Error as StdError;

use datafusion::error::DataFusionError;
use headwater_core::{Error, ErrorKind};

/// The error as the cause of one of DataFusion's; [`from_datafusion`] finds it again.
pub fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The error of Headwater's that made DataFusion fail, as it was. Where there is none, the query is at fault (`InvalidInput`), asks for what
/// DataFusion does not do (`Unsupported`), or met a failing disk (`Unavailable`).
pub fn from_datafusion(error: DataFusionError) -> Error {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(&error);
    while let Some(source) = cause {
        if let Some(own) = source.downcast_ref::<Error>() {
            return own.duplicate();
        }
        cause = source.source();
    }
    let (kind, message) = match error.find_root() {
        DataFusionError::NotImplemented(_) | DataFusionError::Internal(_) => (ErrorKind::Unsupported, "DataFusion does not do this query"),
        DataFusionError::ExecutionJoin(_) => (ErrorKind::Unavailable, "the runtime stopped a task of the query"),
        DataFusionError::IoError(_) => (ErrorKind::Unavailable, "the query's temporary files failed"),
        DataFusionError::ResourcesExhausted(_) => (ErrorKind::Unavailable, "the query needs more memory than it may have"),
        _ => (ErrorKind::InvalidInput, "the query is not right"),
    };
    Error::new(kind, message).because(error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_error_of_ours_comes_back_whatever_is_around_it() {
        let ours = || to_datafusion(Error::new(ErrorKind::Corrupt, "damaged").at("object", "x"));
        let wrapped = [
            ours(),
            ours().context("far down"),
            DataFusionError::Shared(Arc::new(ours())),
            DataFusionError::from(&Arc::new(DataFusionError::Shared(Arc::new(ours())))).context("twice"),
            DataFusionError::External(Box::new(ours())),
            DataFusionError::Collection(vec![ours(), DataFusionError::Plan("p".into())]),
        ];
        for error in wrapped {
            let shown = error.to_string();
            let back = from_datafusion(error);
            assert_eq!((back.kind(), back.context("object")), (ErrorKind::Corrupt, Some("x")), "{shown}");
        }
    }

    #[test]
    fn the_others_have_a_kind() {
        let kind = |error| from_datafusion(error).kind();
        assert_eq!(kind(DataFusionError::Plan("p".into())), ErrorKind::InvalidInput);
        assert_eq!(kind(DataFusionError::NotImplemented("n".into()).context("c")), ErrorKind::Unsupported);
        assert_eq!(kind(DataFusionError::IoError(std::io::Error::other("full"))), ErrorKind::Unavailable);
    }
}
