#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "libsim/modules/blocks.hpp"
#include "tests/libexec/kernels/allocation_count.hpp"
#include "tests/libexec/kernels/lockstep_run.hpp"

namespace {
std::atomic<std::int64_t> count{0};
}  // namespace

void* operator new(std::size_t size, std::nothrow_t const& /*tag*/) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}
void* operator new(std::size_t size) {
  if (void* const memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc{};
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }

namespace stagecraft::test {

std::int64_t allocation_count() { return count.load(); }

namespace {

TEST_CASE("kernels allocate nothing while they run", "[kernels]") {
  auto const precision = GENERATE(Precision::fp32, Precision::bf16);
  auto const attention = GENERATE(Attention::unfused, Attention::flash);
  auto const gemm = GENERATE(GemmKind::openblas, GemmKind::plain);
  ModelConfig model = small_model(precision);
  model.attention = attention;
  model.sequence = 200;
  model.kv_heads = 2;
  model.positions = Positions::rotary;
  BlockShape const shape{.model = model, .micro = 2};
  for (BlockProgram const& program :
       {build_embedding(shape), build_layers(shape, 1, {}), build_head(shape, HeadWeight::own)}) {
    LockstepRun lockstep{program, shape, {.gemm = gemm, .threads = 2}};
    lockstep.run();
    CHECK(lockstep.allocations() == 0);
  }
}

Bytes workspace(ElementType type, int threads) {
  return CpuKernels::workspace(std::array{type}, threads);
}

TEST_CASE("the workspace does not depend on the model, but on bits and threads", "[kernels]") {
  // 8 tiles of 64 x 256 elements per thread; 16 bits: at least blocks of 512 x 512, 512 x 1024
  // twice.
  CHECK(workspace(ElementType::f32, 1) == Bytes{8 * 64 * 256 * 4});
  CHECK(workspace(ElementType::f64, 3) == Bytes{3 * 8 * 64 * 256 * 8});
  CHECK(workspace(ElementType::bf16, 1) == Bytes{(512 * 512 + 2 * 512 * 1024) * 4});
  CHECK(workspace(ElementType::f16, 64) == Bytes{64 * 8 * 64 * 256 * 4});
  // Of several types, what the most demanding one takes.
  CHECK(CpuKernels::workspace(std::array{ElementType::f32, ElementType::f64}, 3) ==
        Bytes{3 * 8 * 64 * 256 * 8});
}

}  // namespace
}  // namespace stagecraft::test
