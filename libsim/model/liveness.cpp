#include "libsim/model/liveness.hpp"

#include <algorithm>
#include <cassert>

namespace stagecraft {
namespace {

/// A collective that the compute stream has not waited for yet.
struct Pending {
  std::int32_t position;
  Op const* op;
};

bool touches(BlockProgram const& block, TensorList const& ids, TensorList const& others) {
  return std::any_of(ids.begin(), ids.end(), [&](TensorId id) {
    return std::any_of(others.begin(), others.end(), [&](TensorId other) {
      return block.tensor(id).buffer == block.tensor(other).buffer;
    });
  });
}

/// Whether a compute op must come after the collective: it uses the result, or overwrites an
/// operand.
bool conflicts(BlockProgram const& block, Op const& op, Op const& collective) {
  return touches(block, op.reads, collective.writes) ||
         touches(block, op.writes, collective.writes) ||
         touches(block, op.writes, collective.reads);
}

std::vector<Op> with_waits(BlockProgram const& block, std::vector<Op> const& ops) {
  std::vector<Op> result;
  result.reserve(ops.size() + 16);
  std::vector<Pending> pending;
  // The stream runs in issue order, so a wait for one op is a wait for all ops before it.
  auto const wait_for = [&](std::size_t last) {
    Op wait;
    wait.kind = OpKind::wait;
    wait.name = {pending[last].op->name.owner, "wait"};
    wait.phase = pending[last].op->phase;
    wait.module = pending[last].op->module;
    wait.layer = pending[last].op->layer;
    wait.waits_for = pending[last].position;
    result.push_back(wait);
    pending.erase(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(last) + 1);
  };
  for (Op const& op : ops) {
    if (op.stream == Stream::compute) {
      for (std::size_t i = pending.size(); i-- > 0;) {
        if (conflicts(block, op, *pending[i].op)) {
          wait_for(i);
          break;
        }
      }
      result.push_back(op);
      continue;
    }
    pending.push_back({static_cast<std::int32_t>(result.size()), &op});
    result.push_back(op);
    if (!op.asynchronous) wait_for(pending.size() - 1);
  }
  if (!pending.empty()) wait_for(pending.size() - 1);
  return result;
}

/// The position at which the compute stream knows that the op at `position` is over: that of the op
/// itself, or of the wait for it.
std::int32_t end_position(std::vector<Op> const& ops, std::int32_t position) {
  if (ops[static_cast<std::size_t>(position)].stream == Stream::compute) return position;
  for (auto i = static_cast<std::size_t>(position) + 1; i < ops.size(); ++i) {
    if (ops[i].kind == OpKind::wait && ops[i].waits_for >= position) {
      return static_cast<std::int32_t>(i);
    }
  }
  assert(false && "every collective is waited for");
  return static_cast<std::int32_t>(ops.size()) - 1;
}

}  // namespace

void insert_waits(BlockProgram& block) {
  block.forward = with_waits(block, block.forward);
  block.backward = with_waits(block, block.backward);
}

void derive_liveness(BlockProgram& block) {
  std::vector<BufferLife> life(block.tensors.size());
  auto const at = [&](TensorId buffer) -> BufferLife& {
    return life[static_cast<std::size_t>(buffer)];
  };
  auto const enter = [&](TensorId id, Pass pass) {
    if (id == no_tensor) return;
    BufferLife& entry = at(block.tensor(id).buffer);
    if (entry.buffer != no_tensor) return;
    entry = {.buffer = block.tensor(id).buffer,
             .allocate_pass = pass,
             .allocate = BufferLife::outside,
             .release_pass = pass,
             .release = -1};
  };
  enter(block.input, Pass::forward);
  for (Pass const pass : {Pass::forward, Pass::backward}) {
    if (pass == Pass::backward) enter(block.grad_output, Pass::backward);
    std::vector<Op> const& ops = block.ops(pass);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      auto const position = static_cast<std::int32_t>(i);
      auto const use = [&](TensorId id) {
        Tensor const& tensor = block.tensor(block.tensor(id).buffer);
        if (tensor.lifetime == Lifetime::job) return;
        BufferLife& entry = at(tensor.buffer);
        if (entry.buffer == no_tensor) {
          entry.buffer = tensor.buffer;
          entry.allocate_pass = pass;
          entry.allocate = position;
        }
        if (entry.release_pass != pass) entry.release = -1;
        entry.release_pass = pass;
        entry.release = std::max(entry.release, end_position(ops, position));
      };
      for (TensorId const id : ops[i].reads) use(id);
      for (TensorId const id : ops[i].writes) use(id);
    }
  }
  auto const leave = [&](TensorId id) {
    if (id != no_tensor) at(block.tensor(id).buffer).release = BufferLife::outside;
  };
  leave(block.output);
  leave(block.grad_input);
  block.lives.clear();
  for (BufferLife const& entry : life) {
    if (entry.buffer != no_tensor) block.lives.push_back(entry);
  }
}

}  // namespace stagecraft
