#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/libexec/cuda_ptx/interpreter.hpp"
#include "tests/libexec/cuda_ptx/warp_registers.hpp"

/// Small kernels in PTX, for tests of the interpreter.
namespace stagecraft::ptx::test {

/// A kernel of two pointers, whose body finds them in %in and %out, the thread's number in %tid
/// (its 4 and 16 bytes of either in %in4, %out4, %in16, %out16), and registers %r, %rd, %rs, %f,
/// %fd, %p.
inline std::string kernel_of(std::string const& body, std::string const& declarations = {}) {
  return R"(
.version 9.0
.target sm_90
.address_size 64
)" + declarations +
         R"(
.visible .entry snippet(.param .u64 from, .param .u64 to)
{
  .reg .pred %p<9>;
  .reg .b16 %rs<9>;
  .reg .b32 %r<99>, %tid;
  .reg .f32 %f<9>;
  .reg .f64 %fd<9>;
  .reg .b64 %rd<9>, %in, %out, %in4, %out4, %in16, %out16;
  ld.param.u64 %in, [from];
  ld.param.u64 %out, [to];
  mov.u32 %tid, %tid.x;
  mul.wide.u32 %rd8, %tid, 4;
  add.s64 %in4, %in, %rd8;
  add.s64 %out4, %out, %rd8;
  mul.wide.u32 %rd8, %tid, 16;
  add.s64 %in16, %in, %rd8;
  add.s64 %out16, %out, %rd8;
)" + body +
         R"(
  ret;
}
)";
}

/// Runs a block of threads on words; returns what %out has then. Memory is these words alone.
inline std::vector<std::uint32_t> run_snippet(std::string const& text,
                                              std::vector<std::uint32_t> const& words,
                                              std::size_t results,
                                              unsigned threads = 32,
                                              std::size_t shared_bytes = 0) {
  std::vector<std::uint32_t> in = words;
  std::vector<std::uint32_t> out(results, 0xFFFFFFFFU);
  auto const range_of = [](std::vector<std::uint32_t> const& memory) {
    auto const begin = reinterpret_cast<std::uint64_t>(memory.data());
    return MemoryRange{begin, begin + 4 * memory.size()};
  };
  auto const bytes_of = [](std::uint64_t pointer) {
    std::vector<std::byte> bytes(sizeof pointer);
    std::memcpy(bytes.data(), &pointer, sizeof pointer);
    return bytes;
  };
  LoadedModule module{text};
  module.run("snippet", {{1, 1, 1}, {threads, 1, 1}, shared_bytes},
             {bytes_of(range_of(in).begin), bytes_of(range_of(out).begin)},
             [&](std::uint64_t address) {
               for (MemoryRange const range : {range_of(in), range_of(out)}) {
                 if (address >= range.begin && address < range.end) return range;
               }
               return MemoryRange{};
             });
  return out;
}

}  // namespace stagecraft::ptx::test
