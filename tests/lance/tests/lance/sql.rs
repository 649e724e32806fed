//! Queries: what they answer and refuse does not depend on the store. What they read does, and is counted for Parquet where those tests are; Lance has no column
//! names with dots, which are among the names those tests try.

#[path = "../../../../sql/tests/queries/answers.rs"]
mod answers;
#[path = "../../../../sql/tests/queries/conditions.rs"]
mod conditions;
#[path = "../../../../sql/tests/queries/failures.rs"]
mod failures;
#[path = "../../../../sql/tests/queries/fixture.rs"]
mod fixture;
#[path = "../../../../sql/tests/queries/refusals.rs"]
mod refusals;
#[path = "../../../../sql/tests/queries/sample.rs"]
mod sample;

use crate::LANCE as KIND;
