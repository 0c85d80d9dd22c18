//! Threads that fill one map. Argument: keys of each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;

fn main() {
    let keys: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let map = Arc::new(Mutex::new(BTreeMap::new()));
    let threads: Vec<_> = (0..6u64)
        .map(|number| {
            let map = map.clone();
            thread::spawn(move || {
                for i in 0..keys {
                    let bytes = vec![number as u8; (i % 300) as usize];
                    map.lock().unwrap().insert(i * 6 + number, bytes);
                    if i % 3 == 0 {
                        map.lock().unwrap().remove(&(i / 2 * 6 + number));
                    }
                }
            })
        })
        .collect();
    for one in threads {
        one.join().unwrap();
    }
    let map = map.lock().unwrap();
    println!("{} {}", map.len(), map.values().map(Vec::len).sum::<usize>());
}
