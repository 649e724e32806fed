//! Whether threads have nothing to do, as the machine itself says.

use std::fs;

/// Whether every thread of this process that has one of these names sleeps. Where no such thing can be known (`/proc` is Linux's), they count as
/// resting: a thread that still computes may then make one round trip into two.
pub(super) fn resting(names: &[&str]) -> bool {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return true };
    threads.flatten().all(|thread| {
        // A thread that ends meanwhile has nothing to do, either.
        fs::read_to_string(thread.path().join("stat")).map_or(true, |stat| is_asleep(&stat) || !is_named(&stat, names))
    })
}

fn is_named(stat: &str, names: &[&str]) -> bool {
    stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).is_some_and(|(comm, _)| names.contains(&comm))
}

fn is_asleep(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_rests_only_while_it_waits() {
        let (give, work) = channel::<bool>();
        let (done, ended) = channel();
        let run = move || {
            done.send(()).unwrap();
            let mut busy = work.recv().unwrap();
            while busy {
                busy = work.try_recv().unwrap_or(true);
            }
            done.send(()).unwrap();
            work.recv().unwrap_err();
        };
        let thread = std::thread::Builder::new().name("a (thread)".to_owned()).spawn(run).unwrap();
        ended.recv().unwrap();
        let wait_until = |rests: bool| {
            while resting(&["another", "a (thread)"]) != rests {
                std::thread::yield_now();
            }
        };
        wait_until(true);
        give.send(true).unwrap();
        wait_until(false);
        assert!(resting(&["nobody"]));
        give.send(false).unwrap();
        ended.recv().unwrap();
        wait_until(true);
        drop(give);
        thread.join().unwrap();
    }
}
