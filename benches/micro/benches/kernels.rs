//! Measures each kernel natively with criterion.
#![cfg(not(target_arch = "wasm32"))]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::time::Duration;

fn all(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("kernels");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1)).sample_size(20);
    for mut kernel in micro_benchmarks::kernels() {
        group.throughput(Throughput::Bytes(kernel.bytes as u64));
        group.bench_function(kernel.name, |bencher| bencher.iter(&mut kernel.run));
    }
    group.finish();
}

criterion_group!(benches, all);
criterion_main!(benches);
