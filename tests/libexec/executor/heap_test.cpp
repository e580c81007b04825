#include <malloc.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>

#include "tests/libexec/executor/small_runs.hpp"

// Every allocation of this program passes here on its way to the C library.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* block, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* block);
}

namespace {

std::atomic<std::int64_t> live_bytes = 0;
std::atomic<std::int64_t> peak_bytes = 0;

void* count(void* block) {
  if (block == nullptr) return nullptr;
  auto const size = static_cast<std::int64_t>(malloc_usable_size(block));
  std::int64_t const now = live_bytes.fetch_add(size) + size;
  std::int64_t peak = peak_bytes.load();
  while (now > peak && !peak_bytes.compare_exchange_weak(peak, now)) {
  }
  return block;
}

void forget(void* block) {
  if (block != nullptr) live_bytes -= static_cast<std::int64_t>(malloc_usable_size(block));
}

}  // namespace

extern "C" {
void* malloc(std::size_t size) { return count(__libc_malloc(size)); }
void* calloc(std::size_t number, std::size_t size) { return count(__libc_calloc(number, size)); }
void* realloc(void* block, std::size_t size) {
  forget(block);
  return count(__libc_realloc(block, size));
}
void* memalign(std::size_t alignment, std::size_t size) {
  return count(__libc_memalign(alignment, size));
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return count(__libc_memalign(alignment, size));
}
int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  *block = count(__libc_memalign(alignment, size));
  return *block == nullptr ? 12 : 0;
}
void free(void* block) {
  forget(block);
  __libc_free(block);
}
}

namespace stagecraft::heap_test {
namespace {

/// What an iteration takes from the heap beyond the tensors that it counts.
std::int64_t hidden_bytes(TrainingConfig const& config) {
  std::int64_t before = 0;
  std::int64_t tensors_before = 0;
  std::int64_t hidden = 0;
  SmallRun run{.gemm = GemmKind::openblas};
  run.options.steps = 2;
  run.options.after_each = [&](RankContext const& context, RankExecutor&, StepReport const&) {
    if (context.state.step != 1) return;  // the first iteration warms up
    before = live_bytes;
    peak_bytes = live_bytes.load();
    tensors_before = context.allocator.now().sum();
  };
  run.options.after_last = [&](RankContext const& context, RankExecutor&, StepReport const&) {
    std::int64_t const workspace = context.backend.workspace().count();
    std::int64_t const tensors = context.allocator.peak_bytes() - workspace - tensors_before;
    REQUIRE(tensors > 0);
    hidden = peak_bytes - before - tensors;
  };
  execute(config, run);
  return hidden;
}

/// Of a step, whatever s, h and the layers: bookkeeping of live tensors, rounding of blocks.
constexpr std::int64_t most_hidden_bytes = 96 << 10;

TEST_CASE("kernels and executor take nothing from the heap that grows with s or h", "[heap]") {
  Precision const precision = GENERATE(Precision::fp16, Precision::fp32, Precision::fp64);
  TrainingConfig config = GENERATE_COPY(small_gpt(precision), small_llama(precision));
  config.model.attention = GENERATE(Attention::unfused, Attention::flash);
  RecomputeGranularity const granularity =
      GENERATE(RecomputeGranularity::none, RecomputeGranularity::full);
  config.recompute.front().granularity = granularity;
  CAPTURE(static_cast<int>(precision), static_cast<int>(granularity));
  CHECK(hidden_bytes(config) < most_hidden_bytes);
  config.model.sequence *= 16;
  CHECK(hidden_bytes(config) < most_hidden_bytes);
  config.model.hidden *= 8;
  config.model.head_dim *= 8;
  config.model.ffn_hidden *= 8;
  config.model.vocabulary *= 32;
  CHECK(hidden_bytes(config) < most_hidden_bytes);
}

}  // namespace
}  // namespace stagecraft::heap_test
