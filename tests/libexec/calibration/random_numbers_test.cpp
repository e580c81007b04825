#include <catch2/catch.hpp>
#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include "libexec/backends/cpu_backend.hpp"
#include "libexec/backends/numbers.hpp"

namespace stagecraft::random_numbers_test {
namespace {

/// A backend that counts what its host writes, for each of which a device has to wait.
class CountingBackend final : public Backend {
 public:
  void* allocate(std::size_t bytes) override { return cpu_->allocate(bytes); }
  void deallocate(void* address, std::size_t bytes) noexcept override {
    cpu_->deallocate(address, bytes);
  }
  void poison(void* address, std::size_t bytes) noexcept override { cpu_->poison(address, bytes); }
  void run(KernelCall const& call) override { cpu_->run(call); }
  void copy(void* target, void const* source, std::size_t bytes) override {
    cpu_->copy(target, source, bytes);
  }
  void write(void* device, void const* host, std::size_t bytes) override {
    ++writes_;
    cpu_->write(device, host, bytes);
  }
  void read(void* host, void const* device, std::size_t bytes) override {
    cpu_->read(host, device, bytes);
  }
  Bytes workspace() const override { return cpu_->workspace(); }

  int writes() const { return writes_; }

 private:
  std::unique_ptr<Backend> cpu_ = make_cpu_backend({.types = {ElementType::f32}}, {});
  int writes_ = 0;
};

constexpr std::size_t period = 65'536;

TEST_CASE("memory of any size is filled by one write, with numbers that repeat after 65,536",
          "[calibration]") {
  std::size_t const count = GENERATE(std::size_t{100}, period, 5 * period + 17);
  CountingBackend backend;
  std::vector<float> filled(count + 1, 7);
  RandomNumbers{ElementType::f32, 1}.write(backend, filled.data(), count * sizeof(float));
  REQUIRE(backend.writes() == 1);
  REQUIRE(filled[count] == 7);
  bool repeats = true;
  for (std::size_t i = period; i < count; ++i) repeats = repeats && filled[i] == filled[i % period];
  REQUIRE(repeats);
  REQUIRE(std::set<float>(filled.begin(), filled.begin() + 100).size() > 90);
}

}  // namespace
}  // namespace stagecraft::random_numbers_test
