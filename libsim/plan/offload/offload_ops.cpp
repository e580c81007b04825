#include "libsim/plan/offload/offload_ops.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace stagecraft {
namespace {

constexpr std::size_t most_buffers = 100;
constexpr std::size_t name_length = 8;
constexpr auto letters_of_names = [] {
  std::array<char, most_buffers * name_length> letters{};
  for (std::size_t i = 0; i < most_buffers; ++i) {
    std::string_view const stem = "saved_";
    for (std::size_t k = 0; k < stem.size(); ++k) letters[i * name_length + k] = stem[k];
    letters[i * name_length + stem.size()] = static_cast<char>('0' + i / 10);
    letters[i * name_length + stem.size() + 1] = static_cast<char>('0' + i % 10);
  }
  return letters;
}();

Op& add(std::vector<Op>& ops, OpKind kind, std::string_view name) {
  Op& op = ops.emplace_back();
  op.kind = kind;
  op.name = {"offload", name};
  op.phase = Phase::offload;
  op.module = "offload";
  return op;
}

}  // namespace

std::string_view name_of_saved(std::size_t number) {
  if (number >= most_buffers) throw std::length_error{"a layer saves more than 100 buffers"};
  return {&letters_of_names[number * name_length], name_length};
}

bool may_leave(BlockProgram const& block, BufferLife const& life) {
  return life.is_saved() && life.release != BufferLife::outside &&
         block.tensor(life.buffer).category == Category::activations;
}

void remove_waits(BlockProgram& block) {
  for (Pass const pass : {Pass::forward, Pass::backward}) {
    std::erase_if(block.ops(pass), [](Op const& op) { return op.kind == OpKind::wait; });
    for (Op& op : block.ops(pass)) op.waits_for = -1;
  }
}

TensorId append_returned(BlockProgram& block, Tensor tensor) {
  auto const id = static_cast<TensorId>(block.tensors.size());
  tensor.rebuilt = true;
  tensor.buffer = id;
  block.tensors.push_back(tensor);
  return id;
}

TensorId read_returned(BlockProgram& block, TensorId tensor, std::span<std::size_t const> readers) {
  Tensor const left = block.tensor(tensor);  // a copy: the tensors move
  bool const is_whole = left.buffer == tensor;
  auto const is_in = [&](Tensor const& other) {
    return other.buffer == left.buffer &&
           (is_whole ||
            (other.offset == left.offset && other.shape.elements() == left.shape.elements()));
  };
  // A view that is copied by itself has a buffer without gaps.
  auto const append = [&](Tensor view) {
    if (!is_whole) {
      view.strides = {};
      view.offset = 0;
    }
    return append_returned(block, view);
  };
  TensorId const returned = append(left);
  std::map<TensorId, TensorId> copies{{tensor, returned}};
  for (std::size_t const reader : readers) {
    for (TensorList Op::*const operands : {&Op::reads, &Op::writes}) {
      for (TensorId& id : block.backward[reader].*operands) {
        if (!is_in(block.tensor(id))) continue;
        if (!copies.contains(id)) {
          copies[id] = append(block.tensor(id));
          block.tensors.back().buffer = returned;
        }
        id = copies.at(id);
      }
    }
  }
  return returned;
}

void append_hold(std::vector<Op>& ops, std::string_view name, std::span<TensorId const> buffers) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    Op& op = i % TensorList::capacity == 0 ? add(ops, OpKind::hold, name) : ops.back();
    op.reads.push_back(buffers[i]);
  }
}

Op& append_link_copy(std::vector<Op>& ops, Stream stream, Bytes bytes) {
  Op& op = add(ops, OpKind::copy_state, name_of(stream));
  op.stream = stream;
  op.payload = op.traffic = bytes;
  op.asynchronous = true;
  return op;
}

void prepend(std::vector<Op>& ops, std::vector<Op> first) {
  first.insert(first.end(), ops.begin(), ops.end());
  ops = std::move(first);
}

}  // namespace stagecraft
