#include "tests/libexec/cuda_ptx/reconvergence.hpp"

#include <algorithm>
#include <cstddef>

namespace stagecraft::ptx {
namespace {

/// Instructions that always run one after another. The last block stands for the kernel's end.
struct Blocks {
  std::vector<int> first{};  ///< instruction
  std::vector<int> last{};   ///< instruction
  std::vector<std::vector<int>> successors{};
  std::vector<std::vector<int>> predecessors{};

  int end() const { return static_cast<int>(first.size()); }
};

std::size_t index(int i) { return static_cast<std::size_t>(i); }

Blocks blocks_of(std::vector<Instruction> const& code) {
  int const size = static_cast<int>(code.size());
  std::vector<bool> begins(index(size) + 1, false);
  begins[0] = true;
  for (int i = 0; i < size; ++i) {
    Flow const flow = code[index(i)].flow;
    if (flow == Flow::branch) begins[index(code[index(i)].target)] = true;
    if (flow == Flow::branch || flow == Flow::exit) begins[index(i) + 1] = true;
  }
  Blocks blocks;
  std::vector<int> block_at(index(size));
  for (int i = 0; i < size; ++i) {
    if (begins[index(i)]) {
      blocks.first.push_back(i);
      blocks.last.push_back(i);
    }
    blocks.last.back() = i;
    block_at[index(i)] = blocks.end() - 1;
  }
  blocks.successors.resize(blocks.first.size() + 1);
  blocks.predecessors.resize(blocks.first.size() + 1);
  for (int block = 0; block < blocks.end(); ++block) {
    Instruction const& last = code[index(blocks.last[index(block)])];
    bool const is_conditional = last.guard != no_slot;
    auto const add = [&](int to) {
      blocks.successors[index(block)].push_back(to);
      blocks.predecessors[index(to)].push_back(block);
    };
    if (last.flow == Flow::branch) add(block_at[index(last.target)]);
    if (last.flow == Flow::exit) add(blocks.end());
    if ((last.flow != Flow::branch && last.flow != Flow::exit) || is_conditional) add(block + 1);
  }
  return blocks;
}

/// Blocks in an order in which each comes after all that it leads to, but for loops.
std::vector<int> post_order(Blocks const& blocks) {
  std::vector<int> order;
  std::vector<char> is_seen(blocks.first.size() + 1, 0);
  std::vector<std::pair<int, std::size_t>> path{{blocks.end(), 0}};
  is_seen[index(blocks.end())] = 1;
  while (!path.empty()) {
    auto& [block, next] = path.back();
    auto const& predecessors = blocks.predecessors[index(block)];
    if (next < predecessors.size()) {
      int const to = predecessors[next++];
      if (is_seen[index(to)] == 0) {
        is_seen[index(to)] = 1;
        path.emplace_back(to, 0);
      }
    } else {
      order.push_back(block);
      path.pop_back();
    }
  }
  return order;
}

/// Of each block, the first that all its ways to the end come to; -1 where none leads there.
std::vector<int> post_dominators(Blocks const& blocks) {
  std::vector<int> const order = post_order(blocks);
  std::vector<int> number(blocks.first.size() + 1, -1);
  for (std::size_t i = 0; i < order.size(); ++i) number[index(order[i])] = static_cast<int>(i);
  std::vector<int> dominator(blocks.first.size() + 1, -1);
  dominator[index(blocks.end())] = blocks.end();
  auto const common = [&](int a, int b) {
    while (a != b) {
      while (number[index(a)] < number[index(b)]) a = dominator[index(a)];
      while (number[index(b)] < number[index(a)]) b = dominator[index(b)];
    }
    return a;
  };
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (std::size_t i = order.size() - 1; i-- > 0;) {
      int const block = order[i];
      int found = -1;
      for (int const to : blocks.successors[index(block)]) {
        if (dominator[index(to)] < 0) continue;
        found = found < 0 ? to : common(found, to);
      }
      is_changed = is_changed || dominator[index(block)] != found;
      dominator[index(block)] = found;
    }
  }
  return dominator;
}

}  // namespace

void find_reconvergence(std::vector<Instruction>& code) {
  Blocks const blocks = blocks_of(code);
  std::vector<int> const dominators = post_dominators(blocks);
  for (int block = 0; block < blocks.end(); ++block) {
    Instruction& last = code[index(blocks.last[index(block)])];
    int const found = dominators[index(block)];
    bool const is_place = found >= 0 && found != blocks.end();
    if (last.flow == Flow::branch) last.reconvergence = is_place ? blocks.first[index(found)] : -1;
  }
}

}  // namespace stagecraft::ptx
