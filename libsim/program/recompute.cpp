#include "libsim/program/recompute.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/model/recompute_regions.hpp"
#include "libsim/program/tensor_copies.hpp"

namespace stagecraft {
namespace {

/// The ops of a block that belong to some modules.
struct Region {
  std::vector<bool> forward;  ///< by op of the pass
  std::vector<bool> backward;
};

/// The region of these modules in one layer of the block, or in all layers.
Region region_of(BlockProgram const& block,
                 std::span<std::string_view const> modules,
                 std::optional<int> layer) {
  // Ops of one module mostly follow each other.
  std::string_view latest;
  bool is_latest_in = false;
  auto const is_in = [&](Op const& op) {
    if ((layer && op.layer != *layer) || op.phase == Phase::recompute) return false;
    if (op.module.data() != latest.data() || op.module.size() != latest.size()) {
      latest = op.module;
      is_latest_in = std::find(modules.begin(), modules.end(), latest) != modules.end();
    }
    return is_latest_in;
  };
  auto const mark = [&](std::vector<Op> const& ops) {
    std::vector<bool> marks(ops.size());
    for (std::size_t i = 0; i < ops.size(); ++i) marks[i] = is_in(ops[i]);
    return marks;
  };
  return {mark(block.forward), mark(block.backward)};
}

/// Copies the region's forward ops, and every buffer that they write.
std::vector<Op> copy_region(BlockProgram& block, TensorCopies& copies, Region const& region) {
  std::vector<Op> copied;
  copied.reserve(
      static_cast<std::size_t>(std::count(region.forward.begin(), region.forward.end(), true)));
  for (std::size_t i = 0; i < block.forward.size(); ++i) {
    if (region.forward[i]) copies.append_copy(block, block.forward[i], copied);
  }
  return copied;
}

/// Gives the copied ops the number of a new region.
void number_region(BlockProgram const& block, std::vector<Op>& copied) {
  std::int32_t next = 0;
  for (Op const& op : block.backward) next = std::max(next, op.region + 1);
  for (Op& op : copied) op.region = next;
}

bool contains(std::vector<TensorId> const& ids, TensorId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

/// The tensors of the region that forward ops outside of it, or the next block, read.
std::vector<TensorId> region_outputs(BlockProgram const& block, Region const& region) {
  std::vector<bool> is_read_outside(block.tensors.size());
  for (std::size_t i = 0; i < block.forward.size(); ++i) {
    if (region.forward[i]) continue;
    for (TensorId const id : block.forward[i].reads) {
      is_read_outside[static_cast<std::size_t>(id)] = true;
    }
  }
  std::vector<TensorId> outputs;
  for (std::size_t i = 0; i < block.forward.size(); ++i) {
    if (!region.forward[i]) continue;
    for (TensorId const id : block.forward[i].writes) {
      bool const is_output = id == block.output || is_read_outside[static_cast<std::size_t>(id)];
      if (is_output && !contains(outputs, id)) outputs.push_back(id);
    }
  }
  return outputs;
}

/// The gradients that the region's backward ops receive from outside: first written by ops that are
/// not in the region, or by the block after.
std::vector<TensorId> received_gradients(BlockProgram const& block, Region const& region) {
  constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  // By tensor: the first backward op that writes it.
  std::vector<std::size_t> writers(block.tensors.size(), none);
  for (std::size_t i = 0; i < block.backward.size(); ++i) {
    for (TensorId const id : block.backward[i].writes) {
      std::size_t& writer = writers[static_cast<std::size_t>(id)];
      if (writer == none) writer = i;
    }
  }
  std::vector<TensorId> received;
  for (std::size_t i = 0; i < block.backward.size(); ++i) {
    if (!region.backward[i]) continue;
    for (TensorId const id : block.backward[i].reads) {
      TensorId const buffer = block.tensor(id).buffer;
      if (block.tensor(buffer).lifetime == Lifetime::job || contains(received, buffer)) continue;
      std::size_t const writer = writers[static_cast<std::size_t>(buffer)];
      bool const from_outside = writer != none && !region.backward[writer] &&
                                block.backward[writer].phase != Phase::recompute;
      if (buffer == block.grad_output || from_outside) received.push_back(buffer);
    }
  }
  return received;
}

/// Removes the ops behind the last one of `again` that writes what the region's backward reads.
void stop_early(BlockProgram const& block, Region const& region, std::vector<Op>& again) {
  std::vector<bool> is_read(block.tensors.size());
  for (std::size_t i = 0; i < block.backward.size(); ++i) {
    if (!region.backward[i]) continue;
    for (TensorId const id : block.backward[i].reads) {
      is_read[static_cast<std::size_t>(block.tensor(id).buffer)] = true;
    }
  }
  auto const is_needed = [&](Op const& op) {
    return std::any_of(op.writes.begin(), op.writes.end(), [&](TensorId id) {
      return is_read[static_cast<std::size_t>(block.tensor(id).buffer)];
    });
  };
  while (!again.empty() && !is_needed(again.back())) again.pop_back();
}

/// Runs the region again before its first backward op, after the ops of `before`; with
/// `early_stop`, no more of it than its backward needs.
void checkpoint(BlockProgram& block,
                Region const& region,
                std::vector<Op> const& before,
                TensorCopies copies,
                bool early_stop) {
  std::vector<Op>& backward = block.backward;
  std::vector<bool> const& marks = region.backward;
  auto const first = std::find(marks.begin(), marks.end(), true) - marks.begin();
  if (first == std::ssize(marks)) return;
  auto const last = marks.rend() - std::find(marks.rbegin(), marks.rend(), true);  // one behind it
  std::vector<TensorId> held = received_gradients(block, region);
  std::vector<TensorId> const outputs = region_outputs(block, region);

  std::vector<Op> copied = before;
  std::vector<Op> again = copy_region(block, copies, region);
  for (std::size_t i = 0; i < backward.size(); ++i) {
    if (!marks[i]) continue;
    copies.apply(backward[i].reads);
    copies.apply(backward[i].writes);
  }
  if (early_stop) stop_early(block, region, again);
  copied.insert(copied.end(), again.begin(), again.end());
  number_region(block, copied);
  for (TensorId const id : outputs) {
    bool const is_made = std::ranges::any_of(again, [&](Op const& op) {
      return std::ranges::find(op.writes, copies.of(id)) != op.writes.end();
    });
    if (is_made) held.push_back(copies.of(id));
  }

  Op hold;
  hold.kind = OpKind::hold;
  hold.name = {"checkpoint", "release"};
  hold.phase = Phase::recompute;
  hold.module = backward[static_cast<std::size_t>(first)].module;
  hold.layer = backward[static_cast<std::size_t>(first)].layer;
  // Enough ops to name all of the tensors.
  std::vector<Op> holds;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (i % TensorList::capacity == 0) holds.push_back(hold);
    holds.back().reads.push_back(held[i]);
  }
  std::vector<Op> made;
  made.reserve(backward.size() + copied.size() + holds.size());
  auto const append = [&made](auto begin, auto end) { made.insert(made.end(), begin, end); };
  append(backward.begin(), backward.begin() + first);
  append(copied.begin(), copied.end());
  append(backward.begin() + first, backward.begin() + last);
  append(holds.begin(), holds.end());
  append(backward.begin() + last, backward.end());
  backward = std::move(made);
}

/// Adds to a region what makes quantised copies of its outputs, which a linear layer would
/// otherwise keep in place of the outputs.
/// Source: Transformer Engine, pytorch/module/linear.py, save_original_input; Megatron-LM,
/// core/transformer/attention.py, set_for_recompute_input_layernorm.
void add_quantisation(BlockProgram const& block, Region& region) {
  std::vector<bool> is_output(block.tensors.size());
  std::vector<bool> is_scale(block.tensors.size());
  auto const mark = [](TensorList const& ids, std::vector<bool>& marks) {
    for (TensorId const id : ids) marks[static_cast<std::size_t>(id)] = true;
  };
  auto const reads = [](Op const& op, std::vector<bool> const& marks) {
    return std::ranges::any_of(op.reads,
                               [&](TensorId id) { return marks[static_cast<std::size_t>(id)]; });
  };
  for (std::size_t i = 0; i < block.forward.size(); ++i) {
    Op const& op = block.forward[i];
    if (region.forward[i]) {
      mark(op.writes, is_output);
    } else if (op.kind == OpKind::measure_amax && reads(op, is_output)) {
      region.forward[i] = true;
      mark(op.writes, is_scale);
    } else if (reads(op, is_scale) || (op.kind == OpKind::quantise && reads(op, is_output))) {
      region.forward[i] = true;
    }
  }
}

/// Ops that run again read what is made of an input that is kept in 8 bits, and not the input.
void read_stored(BlockProgram const& block, std::vector<Op>& copied) {
  for (StoredInput const& stored : block.stored_inputs) {
    for (Op& op : copied) {
      for (TensorId& id : op.reads) {
        if (id == stored.input) id = stored.restored;
      }
    }
  }
}

/// Releases the ops' outputs after forward has read them; backward computes them again.
void discard_outputs(BlockProgram& block, Region const& region) {
  TensorCopies copies{block.tensors.size()};
  std::vector<Op> copied = copy_region(block, copies, region);
  number_region(block, copied);
  read_stored(block, copied);
  // Others may read the region's tensors through views that its own ops do not use.
  for (Op const& op : block.backward) copies.copy_views(block, op.reads);
  auto const reads_copy = [&](Op const& op) {
    return std::any_of(op.reads.begin(), op.reads.end(),
                       [&](TensorId id) { return copies.of(id) != id; });
  };
  std::vector<Op>& backward = block.backward;
  auto const first = std::find_if(backward.begin(), backward.end(), reads_copy);
  if (first == backward.end()) return;
  auto const position = std::distance(backward.begin(), first);
  for (Op& op : backward) copies.apply(op.reads);
  backward.insert(backward.begin() + position, copied.begin(), copied.end());
}

/// Keeps only this rank's slice of the checkpointed input. Returns the ops that gather it again.
std::vector<Op> shard_checkpoint(BlockProgram& block,
                                 BlockShape const& rank,
                                 TensorCopies& copies) {
  TensorId const x = block.input;
  Tensor shard = block.tensor(x);
  auto const shard_id = static_cast<TensorId>(block.tensors.size());
  shard.name = {"checkpoint", "input_shard"};
  shard.buffer = shard_id;
  // A flat piece; the last one is padded, as the elements need not be a multiple of t.
  shard.shape = {(shard.shape.elements() + rank.tensor - 1) / rank.tensor};
  block.tensors.push_back(shard);
  Tensor gathered = block.tensor(x);
  auto const gathered_id = static_cast<TensorId>(block.tensors.size());
  gathered.rebuilt = true;
  gathered.category = Category::recomputed;
  gathered.buffer = gathered_id;
  block.tensors.push_back(gathered);
  copies.set(x, gathered_id);

  Op slice;
  slice.kind = OpKind::slice;
  slice.name = {"checkpoint", "slice"};
  slice.phase = Phase::forward;
  slice.type = shard.type;
  slice.module = "checkpoint";
  slice.reads = {x};
  slice.writes = {shard_id};
  slice.traffic = 2 * block.tensor(shard_id).bytes();
  block.forward.insert(block.forward.begin(), slice);

  Op gather;
  gather.kind = OpKind::all_gather;
  gather.name = {"checkpoint", "all_gather"};
  gather.phase = Phase::recompute;
  gather.module = "checkpoint";
  gather.stream = Stream::tensor_parallel;
  gather.group = rank.tensor_group;
  gather.reads = {shard_id};
  gather.writes = {gathered_id};
  gather.payload = block.tensor(gathered_id).bytes();
  return {gather};
}

/// The modules of the ops that may run again.
std::vector<std::string_view> modules_of(BlockProgram const& block) {
  std::vector<std::string_view> modules;
  for (Op const& op : block.forward) {
    if (op.module == batch_counts_module) continue;
    if (std::find(modules.begin(), modules.end(), op.module) == modules.end()) {
      modules.push_back(op.module);
    }
  }
  return modules;
}

/// Checkpoints come before discarded outputs, so that the ops that they add to the backward pass
/// read discarded outputs as all others do. Each kind runs from the last region to the first.
std::vector<RecomputeRegion const*> chosen_regions(RecomputePolicy const& policy) {
  std::vector<RecomputeRegion const*> regions;
  for (std::string const& name : policy.modules) {
    RecomputeRegion const* const region = find_region(name);
    if (region == nullptr) {
      throw std::invalid_argument{"recompute.modules: found '" + name +
                                  "'; accepted: " + region_names()};
    }
    regions.push_back(region);
  }
  // A region within another region is recomputed with it.
  auto const is_within_another = [&](RecomputeRegion const* inner) {
    return std::any_of(regions.begin(), regions.end(), [&](RecomputeRegion const* outer) {
      return outer != inner && outer->kind == RecomputeRegion::Kind::checkpoint &&
             std::all_of(inner->modules.begin(), inner->modules.end(), [&](auto module) {
               return std::find(outer->modules.begin(), outer->modules.end(), module) !=
                      outer->modules.end();
             });
    });
  };
  std::vector<RecomputeRegion const*> outermost;
  std::copy_if(regions.begin(), regions.end(), std::back_inserter(outermost),
               [&](RecomputeRegion const* region) { return !is_within_another(region); });
  regions = std::move(outermost);
  std::sort(regions.begin(), regions.end(), [](auto const* a, auto const* b) {
    return a->kind != b->kind ? a->kind < b->kind : a > b;
  });
  return regions;
}

void recompute(BlockProgram& block,
               RecomputeRegion const& region,
               int layer,
               RecomputePolicy const& policy) {
  if (region.kind == RecomputeRegion::Kind::checkpoint) {
    checkpoint(block, region_of(block, region.modules, layer), {},
               TensorCopies{block.tensors.size()}, policy.early_stop.value_or(false));
    return;
  }
  // Each module's outputs are recomputed just before they are first read.
  for (auto module = region.modules.rbegin(); module != region.modules.rend(); ++module) {
    Region outputs = region_of(block, {&*module, 1}, layer);
    if (!block.quantised_weights.empty()) add_quantisation(block, outputs);
    discard_outputs(block, outputs);
  }
}

/// Moves recompute out of the backward, into a pass of its own.
void separate_recompute(BlockProgram& block) {
  std::vector<Op> rest;
  for (Op const& op : block.backward) {
    (op.region >= 0 ? block.recompute : rest).push_back(op);
  }
  block.backward = std::move(rest);
}

void apply_regions(BlockProgram& block, RecomputePolicy const& policy, BlockShape const& shape) {
  if (policy.granularity == RecomputeGranularity::full) {
    TensorCopies copies{block.tensors.size() + 2};
    std::vector<Op> before;
    // Listed before the input is sharded, because the slice is not recomputed.
    std::vector<std::string_view> const all = modules_of(block);
    if (policy.sharded_checkpoints) before = shard_checkpoint(block, shape, copies);
    checkpoint(block, region_of(block, all, {}), before, std::move(copies),
               policy.early_stop.value_or(false));
  }
  if (policy.granularity != RecomputeGranularity::selective) return;
  std::vector<RecomputeRegion const*> const regions = chosen_regions(policy);
  for (int layer = block.layers - 1; layer >= 0; --layer) {
    for (RecomputeRegion const* region : regions) recompute(block, *region, layer, policy);
  }
}

/// The same for the modules of multi-token prediction in a head: a full policy recomputes from the
/// projection to the module's final norm, whatever its method.
/// Source: Megatron-LM, multi_token_prediction.py: _checkpointed_forward of
/// _proj_and_transformer_layer, which ends with the norm.
void apply_to_predictions(BlockProgram& block, RecomputePolicy const& policy) {
  if (policy.granularity == RecomputeGranularity::none) return;
  std::vector<std::string_view> inner = modules_of(block);
  std::erase_if(inner, [](std::string_view module) {
    return module == "prediction_embedding" || module == "head";
  });
  bool const is_full = policy.granularity == RecomputeGranularity::full;
  std::vector<RecomputeRegion const*> const regions =
      is_full ? std::vector<RecomputeRegion const*>{} : chosen_regions(policy);
  for (int layer = block.prediction_modules; layer > 0; --layer) {
    if (is_full) {
      checkpoint(block, region_of(block, inner, layer), {}, TensorCopies{block.tensors.size()},
                 policy.early_stop.value_or(false));
    }
    for (RecomputeRegion const* region : regions) recompute(block, *region, layer, policy);
  }
}

}  // namespace

void apply_recompute(BlockProgram& block, RecomputePolicy const& policy, BlockShape const& shape) {
  if (block.kind == BlockProgram::Kind::head) apply_to_predictions(block, policy);
  if (block.kind != BlockProgram::Kind::layers) return;
  apply_regions(block, policy, shape);
  if (policy.early == EarlyRecompute::bubble) separate_recompute(block);
}

}  // namespace stagecraft
