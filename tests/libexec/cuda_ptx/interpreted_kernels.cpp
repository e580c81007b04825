// Linked into tests of CUDA kernels beside the emulation: kernels run as PTX then, made of the same
// sources by nvcc. All else is the emulation's: memory, streams, launches.
//
// Environment: STAGECRAFT_PTX_REPORT=FILE appends a line for each kernel that was launched:
// launches, how many of them left the same bytes in memory as the kernel compiled for the CPU,
// which is run too then, and the kernel.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/libexec/cuda_emulation/device.hpp"
#include "tests/libexec/cuda_ptx/interpreter.hpp"
#include "tests/libexec/cuda_ptx/kernel_symbols.hpp"
#include "tests/libexec/cuda_ptx/warp_registers.hpp"

namespace stagecraft::ptx {
namespace {

using emulation::Launch;

/// The PTX of one source, read when the first of its kernels runs.
struct SourceModule {
  std::filesystem::path file;
  std::unique_ptr<LoadedModule> module{};
  std::map<std::string, std::string> kernels{};  ///< by what their names stand for

  LoadedModule& loaded() {
    if (module == nullptr) {
      std::ifstream in{file, std::ios::binary};
      std::string const text{std::istreambuf_iterator<char>{in}, {}};
      module = std::make_unique<LoadedModule>(text);
      for (std::string const& name : module->kernels()) {
        std::string const readable = readable_name(name);
        if (!kernels.emplace(readable, name).second) {
          throw SourceError{"several kernels are called " + readable};
        }
      }
    }
    return *module;
  }
};

using Contents = std::vector<std::vector<std::byte>>;

class InterpretedKernels {
 public:
  InterpretedKernels() {
    std::ifstream list{STAGECRAFT_PTX_LIST};
    for (std::string line; std::getline(list, line);) {
      std::filesystem::path const file = line;
      modules_[file.stem().string()].file = file;
    }
    if (char const* const report = std::getenv("STAGECRAFT_PTX_REPORT")) report_ = report;
  }
  InterpretedKernels(InterpretedKernels const&) = delete;
  InterpretedKernels& operator=(InterpretedKernels const&) = delete;
  InterpretedKernels(InterpretedKernels&&) = delete;
  InterpretedKernels& operator=(InterpretedKernels&&) = delete;
  ~InterpretedKernels() {
    if (report_.empty()) return;
    std::ofstream out{report_, std::ios::app};
    for (auto const& [kernel, count] : counts_) {
      out << count.launches << ' ' << count.same_bytes << ' ' << kernel << '\n';
    }
  }

  void run(emulation::Device& device, Launch const& launch) {
    try {
      KernelSymbol const& symbol = symbols_.at(launch.function);
      if (report_.empty()) return interpret(device, launch, symbol);
      // The CPU's kernel first; what the PTX leaves is what stays.
      Contents const before = contents(device);
      device.blocks.run(launch, device.order);
      Contents const emulated = contents(device);
      restore(device, before);
      interpret(device, launch, symbol);
      Count& count = counts_[readable_name(symbol.name)];
      ++count.launches;
      if (contents(device) == emulated) ++count.same_bytes;
    } catch (std::runtime_error const& error) {
      throw emulation::KernelFailure{error.what()};
    }
  }

 private:
  struct Count {
    int launches = 0;
    int same_bytes = 0;
  };

  void interpret(emulation::Device& device, Launch const& launch, KernelSymbol const& symbol) {
    std::string const wanted = readable_name(symbol.name);
    std::string const stem = std::filesystem::path{symbol.source}.stem().string();
    for (auto& [name, source] : modules_) {
      if (!stem.empty() && name != stem) continue;
      LoadedModule& module = source.loaded();
      auto const kernel = source.kernels.find(wanted);
      if (kernel == source.kernels.end()) continue;
      auto const size_of = [](dim3 const& size) { return Size3{size.x, size.y, size.z}; };
      module.run(kernel->second, {size_of(launch.grid), size_of(launch.block), launch.shared_bytes},
                 launch.arguments, [&](std::uint64_t address) {
                   auto const found =
                       device.memory.allocation_at(reinterpret_cast<void const*>(address));
                   auto const begin = reinterpret_cast<std::uint64_t>(found.data());
                   return MemoryRange{begin, begin + found.size()};
                 });
      return;
    }
    throw SourceError{"no PTX has the kernel " + symbol.source + ": " + wanted};
  }

  static Contents contents(emulation::Device const& device) {
    Contents all;
    for (auto const& memory : device.memory.allocations()) {
      all.emplace_back(memory.begin(), memory.end());
    }
    return all;
  }

  static void restore(emulation::Device const& device, Contents const& contents) {
    std::size_t i = 0;
    for (auto const& memory : device.memory.allocations()) {
      std::copy(contents[i].begin(), contents[i].end(), memory.begin());
      ++i;
    }
  }

  KernelSymbols symbols_{};
  std::map<std::string, SourceModule> modules_{};
  std::string report_{};
  std::map<std::string, Count> counts_{};
};

bool install() {
  emulation::Device::get().configure([](emulation::Device& device) {
    static InterpretedKernels kernels;
    device.run_kernel = [&device](Launch const& launch) { kernels.run(device, launch); };
  });
  return true;
}

[[maybe_unused]] bool const is_installed = install();

}  // namespace
}  // namespace stagecraft::ptx
