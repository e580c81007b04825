#include "libexec/memory/lifetime_check.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>

namespace stagecraft::lifetime_check_test {
namespace {

class HostMemory final : public DeviceMemory {
 public:
  void* allocate(std::size_t bytes) override { return std::malloc(bytes); }
  void deallocate(void* address, std::size_t) noexcept override { std::free(address); }
  void poison(void*, std::size_t) noexcept override {}
};

TEST_CASE("a buffer is late by the ops that ran after the last that was given its address",
          "[memory]") {
  HostMemory memory;
  CountingAllocator allocator{memory};
  Buffer const first =
      allocator.allocate({.name = {"a", "first"}}, Category::activations, ElementType::f32, {16});
  Buffer const second =
      allocator.allocate({.name = {"a", "second"}}, Category::activations, ElementType::f32, {16});
  LifetimeCheck check;
  check.begin_op();
  check.note_use(first.data());
  check.note_use(second.data() + 32);  // a view into it
  check.begin_op();
  check.note_use(second.data());
  check.release(second, {.name = {"a", "second"}}, "gemm");
  REQUIRE(check.late().empty());
  check.begin_op();
  check.release(first, {.name = {"a", "first"}}, "norm");
  REQUIRE(check.late().size() == 1);
  REQUIRE(check.late()[0].ops == 2);
  REQUIRE(check.late()[0].bytes == 64);
  REQUIRE(check.late()[0].op == "norm");
  REQUIRE(to_string(check.late()[0].label) == "a.first");
}

}  // namespace
}  // namespace stagecraft::lifetime_check_test
