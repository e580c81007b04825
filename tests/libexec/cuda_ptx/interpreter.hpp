#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/libexec/cuda_ptx/block_memory.hpp"
#include "tests/libexec/cuda_ptx/program.hpp"

namespace stagecraft::ptx {

struct Size3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

struct LaunchSize {
  Size3 grid{};
  Size3 block{};
  std::size_t dynamic_shared_bytes = 0;
};

/// The bytes of each of a kernel's parameters.
using Arguments = std::vector<std::vector<std::byte>>;

/// A module of PTX, and the memory of its global variables.
class LoadedModule {
 public:
  /// \throws SourceError
  explicit LoadedModule(std::string_view text);
  LoadedModule(LoadedModule const&) = delete;
  LoadedModule& operator=(LoadedModule const&) = delete;
  LoadedModule(LoadedModule&&) = delete;
  LoadedModule& operator=(LoadedModule&&) = delete;
  ~LoadedModule() = default;

  std::vector<std::string> kernels() const;

  /// Runs all blocks of a grid. Pointers are the host's.
  /// \param memory  all that pointers may point to, but for the module's own variables
  /// \throws SourceError  if there is no such kernel, or an instruction that is not known
  /// \throws Fault        names the kernel, the block and the instruction
  void run(std::string const& kernel,
           LaunchSize const& size,
           Arguments const& arguments,
           FindAllocation const& memory);

 private:
  Program const& program(std::string const& kernel);
  MemoryRange variable_at(std::uint64_t address) const;

  Module module_;
  std::vector<std::vector<std::uint64_t>> variables_{};
  std::map<std::string, std::uint64_t> addresses_{};
  std::map<std::string, Program> programs_{};
};

}  // namespace stagecraft::ptx
