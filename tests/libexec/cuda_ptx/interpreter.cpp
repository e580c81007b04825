#include "tests/libexec/cuda_ptx/interpreter.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/libexec/cuda_ptx/decoder.hpp"
#include "tests/libexec/cuda_ptx/warp.hpp"

namespace stagecraft::ptx {
namespace {

// Of a block of compute capability 9.0 (CUDA C++ Programming Guide, 16.9.3).
constexpr std::size_t most_shared_bytes = std::size_t{227} << 10U;

/// All parameters, where a kernel finds them.
std::vector<std::byte> placed(Program const& program, Arguments const& arguments) {
  if (arguments.size() != program.parameter_sizes.size()) {
    throw Fault{"found " + std::to_string(arguments.size()) + " arguments; the kernel has " +
                std::to_string(program.parameter_sizes.size()) + " parameters"};
  }
  std::vector<std::byte> bytes(program.parameter_bytes);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].size() != program.parameter_sizes[i]) {
      throw Fault{"argument " + std::to_string(i) + " has " + std::to_string(arguments[i].size()) +
                  " bytes; the kernel's parameter has " +
                  std::to_string(program.parameter_sizes[i])};
    }
    std::memcpy(bytes.data() + program.parameter_offsets[i], arguments[i].data(),
                arguments[i].size());
  }
  return bytes;
}

std::size_t require_launch(Program const& program, LaunchSize const& size) {
  unsigned const threads = size.block.x * size.block.y * size.block.z;
  if (threads > program.max_threads) {
    throw Fault{"found " + std::to_string(threads) + " threads a block; the kernel allows " +
                std::to_string(program.max_threads)};
  }
  std::size_t const shared = program.static_shared_bytes + size.dynamic_shared_bytes;
  if (shared > most_shared_bytes) {
    throw Fault{"found " + std::to_string(shared) + " bytes of shared memory; a block has " +
                std::to_string(most_shared_bytes)};
  }
  return shared;
}

unsigned part(Size3 const& size, char axis) {
  return axis == 'x' ? size.x : axis == 'y' ? size.y : size.z;
}

/// What a special register holds for a thread.
std::uint32_t special(std::string const& name,
                      LaunchSize const& size,
                      Size3 const& block,
                      unsigned thread) {
  if (name == "%laneid") return thread % warp_lanes;
  char const axis = name.back();
  if (name.rfind("%ntid", 0) == 0) return part(size.block, axis);
  if (name.rfind("%nctaid", 0) == 0) return part(size.grid, axis);
  if (name.rfind("%ctaid", 0) == 0) return part(block, axis);
  Size3 const index{thread % size.block.x, thread / size.block.x % size.block.y,
                    thread / size.block.x / size.block.y};
  return part(index, axis);
}

/// Warps in turns, each until it waits or ends.
void run_block(std::vector<std::unique_ptr<Warp>>& warps, BlockMemory& memory) {
  for (bool forwards = true;; forwards = !forwards) {
    std::size_t waiting = 0;
    std::size_t ended = 0;
    for (std::size_t i = 0; i < warps.size(); ++i) {
      Warp& warp = *warps[forwards ? i : warps.size() - 1 - i];
      Warp::State const state = warp.state() == Warp::State::ended ? warp.state() : warp.run();
      (state == Warp::State::ended ? ended : waiting) += 1;
    }
    if (waiting == 0) return;
    if (ended > 0) {
      throw Fault{std::to_string(waiting) + " warps wait at a barrier, and " +
                  std::to_string(ended) + " have ended"};
    }
    memory.pass_barrier();
  }
}

}  // namespace

LoadedModule::LoadedModule(std::string_view text) : module_{parse(text)} {
  for (Variable const& variable : module_.variables) {
    if (variable.space != "global" && variable.space != "const") continue;
    // Of 8 bytes, aligned like those; what asks for more is only read in parts.
    auto& memory = variables_.emplace_back((variable.bytes + 7) / 8 + 1);
    auto address = reinterpret_cast<std::uint64_t>(memory.data());
    if (variable.alignment > 8) address = (address + 15) / 16 * 16;
    if (variable.alignment > 16)
      throw SourceError{variable.name + ": an alignment of more than 16"};
    if (!variable.initial.empty()) {
      std::memcpy(reinterpret_cast<void*>(address), variable.initial.data(), variable.bytes);
    }
    addresses_[variable.name] = address;
  }
}

std::vector<std::string> LoadedModule::kernels() const {
  std::vector<std::string> names;
  for (Function const& function : module_.functions) {
    if (function.is_entry) names.push_back(function.name);
  }
  return names;
}

Program const& LoadedModule::program(std::string const& kernel) {
  auto const found = programs_.find(kernel);
  if (found != programs_.end()) return found->second;
  Function const* const function = module_.function(kernel);
  if (function == nullptr || !function->is_entry) throw SourceError{"no kernel " + kernel};
  return programs_.emplace(kernel, Decoder{module_, addresses_}.decode(*function)).first->second;
}

MemoryRange LoadedModule::variable_at(std::uint64_t address) const {
  for (Variable const& variable : module_.variables) {
    auto const found = addresses_.find(variable.name);
    if (found == addresses_.end() || address < found->second) continue;
    if (address < found->second + variable.bytes) {
      return {found->second, found->second + variable.bytes};
    }
  }
  return {};
}

void LoadedModule::run(std::string const& kernel,
                       LaunchSize const& size,
                       Arguments const& arguments,
                       FindAllocation const& find) {
  Program const& code = program(kernel);
  Size3 block{0, 0, 0};
  try {
    std::size_t const shared = require_launch(code, size);
    std::vector<std::byte> const parameters = placed(code, arguments);
    BlockMemory memory{[&](std::uint64_t address) {
      MemoryRange const own = variable_at(address);
      return own.end != 0 ? own : find(address);
    }};
    unsigned const threads = size.block.x * size.block.y * size.block.z;
    std::vector<std::unique_ptr<Warp>> warps;
    for (unsigned first = 0; first < threads; first += warp_lanes) {
      unsigned const count = std::min<unsigned>(threads - first, warp_lanes);
      warps.push_back(std::make_unique<Warp>(code, memory, static_cast<int>(warps.size()),
                                             static_cast<int>(count)));
    }
    for (block.z = 0; block.z < size.grid.z; ++block.z) {
      for (block.y = 0; block.y < size.grid.y; ++block.y) {
        for (block.x = 0; block.x < size.grid.x; ++block.x) {
          memory.begin_block(shared, code.local_bytes, warps.size() * warp_lanes, parameters);
          for (std::size_t i = 0; i < warps.size(); ++i) {
            warps[i]->begin();
            for (auto const& [name, slot] : code.special_registers) {
              for (int lane = 0; lane < warps[i]->threads(); ++lane) {
                auto const thread =
                    static_cast<unsigned>(i) * warp_lanes + static_cast<unsigned>(lane);
                warps[i]->set_special(slot, lane, special(name, size, block, thread));
              }
            }
          }
          run_block(warps, memory);
        }
      }
    }
  } catch (Fault const& fault) {
    throw Fault{kernel + ", block (" + std::to_string(block.x) + ", " + std::to_string(block.y) +
                ", " + std::to_string(block.z) + "): " + fault.what()};
  }
}

}  // namespace stagecraft::ptx
