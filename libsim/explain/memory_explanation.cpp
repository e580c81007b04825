#include "libsim/explain/memory_explanation.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "libsim/engine/stage_allocators.hpp"
#include "libsim/memory/buffer_events.hpp"
#include "libsim/memory/rank_memory.hpp"

namespace stagecraft {

namespace {

/// A buffer that a stage holds. Pointers lead into its plan.
struct LiveBuffer {
  BufferChange role;          ///< its allocation, or the last time that it was taken over
  Op const* maker = nullptr;  ///< the op that wrote it first; null: received from another stage
  std::int64_t layer = -1;    ///< counted over the model; -1 outside of layers
  MicrobatchId microbatch = no_microbatch;
};

/// What a stage holds at one event, except for parameters, their gradients and optimizer state.
struct LiveTensors {
  BufferChange last;                           ///< the allocation that makes the event
  MicrobatchId microbatch = no_microbatch;     ///< the microbatch of `last`
  std::map<std::int64_t, LiveBuffer> buffers;  ///< by BufferEvent::buffer
};

void follow(BufferEvent const& event, std::map<std::int64_t, LiveBuffer>& live) {
  BufferChange const& change = *event.change;
  if (change.is_resident()) return;
  if (change.kind == BufferChange::Kind::release) {
    live.erase(event.buffer);
    return;
  }
  LiveBuffer& buffer = live[event.buffer];
  if (change.kind == BufferChange::Kind::allocate) {
    buffer.maker = change.op;
    buffer.microbatch = event.microbatch;
  }
  // A sent message keeps the layer of the tensor that it was made from.
  if (!change.is_message()) buffer.layer = change.layer_of_tensor();
  buffer.role = change;
}

/// Follows a stage's buffers up to the first allocation after which it holds `held` bytes (without
/// workspace). If `held` is its peak, the result is what the stage holds at its peak.
/// \throws std::logic_error  if the stage never holds so much.
LiveTensors live_tensors_at(StageRank const& rank, std::int64_t held) {
  LiveTensors live;
  std::int64_t now = 0;
  BufferEvents events{rank};
  while (events.next()) {
    for (BufferEvent const& event : events.now()) {
      BufferChange const& change = *event.change;
      follow(event, live.buffers);
      if (change.kind == BufferChange::Kind::release) now -= change.bytes;
      if (change.kind != BufferChange::Kind::allocate) continue;
      now += change.bytes;
      if (now != held) continue;
      live.last = change;
      live.microbatch = event.microbatch;
      return live;
    }
  }
  throw std::logic_error{"stage " + std::to_string(rank.stage.stage.value()) + " never holds " +
                         std::to_string(held) + " bytes"};
}

bool uses(BlockProgram const& block, TensorList const& ids, TensorId buffer) {
  return std::any_of(ids.begin(), ids.end(),
                     [&](TensorId id) { return block.tensor(id).buffer == buffer; });
}

bool is_kept(BlockProgram const& block, TensorId buffer) {
  auto const life = std::find_if(block.lives.begin(), block.lives.end(),
                                 [&](BufferLife const& one) { return one.buffer == buffer; });
  return life != block.lives.end() && life->is_saved();
}

Stay stay_of(BufferChange const& role) {
  if (role.is_message()) return Stay::message;
  if (is_kept(*role.block, role.tensor)) return Stay::kept;
  return role.category == Category::recomputed ? Stay::rebuilt : Stay::temporary;
}

std::string first_user_in_backward(BlockProgram const& block, TensorId buffer) {
  auto const user = std::find_if(block.backward.begin(), block.backward.end(), [&](Op const& op) {
    return uses(block, op.reads, buffer) || uses(block, op.writes, buffer);
  });
  return user == block.backward.end() ? "" : to_string(user->name);
}

/// Collects the buffers of one group.
struct Gathering {
  TensorGroup group;
  std::map<std::string, std::int64_t> makers;  ///< bytes
  std::set<std::int64_t> layers;
  std::set<MicrobatchId> microbatches;
  std::set<std::pair<MicrobatchId, std::int32_t>> passes;

  void add(LiveBuffer const& buffer) {
    group.bytes += buffer.role.bytes;
    ++group.buffers;
    makers[buffer.maker == nullptr ? "received" : to_string(buffer.maker->name)] +=
        buffer.role.bytes;
    if (buffer.layer >= 0) layers.insert(buffer.layer);
    microbatches.insert(buffer.microbatch);
    passes.insert({buffer.microbatch, buffer.role.chunk});
  }

  TensorGroup finish() && {
    for (auto const& [maker, bytes] : makers) group.made_by.push_back(maker);
    std::stable_sort(group.made_by.begin(), group.made_by.end(),
                     [&](auto const& a, auto const& b) { return makers.at(a) > makers.at(b); });
    group.layers = static_cast<std::int64_t>(layers.size());
    group.microbatches = static_cast<std::int64_t>(microbatches.size());
    group.passes = static_cast<std::int64_t>(passes.size());
    return std::move(group);
  }
};

std::vector<TensorGroup> group(std::map<std::int64_t, LiveBuffer> const& buffers) {
  using Key = std::tuple<std::string, Stay, Category>;
  std::map<Key, Gathering> gatherings;
  for (auto const& [number, buffer] : buffers) {
    BufferChange const& role = buffer.role;
    std::string const tensor = role.name();
    Stay const stay = stay_of(role);
    Gathering& gathering = gatherings[{tensor, stay, role.category}];
    if (gathering.group.buffers == 0) {
      gathering.group.tensor = tensor;
      gathering.group.stay = stay;
      gathering.group.category = role.category;
      if (stay == Stay::kept) {
        gathering.group.needed_by = first_user_in_backward(*role.block, role.tensor);
      }
    }
    gathering.add(buffer);
  }
  std::vector<TensorGroup> groups;
  groups.reserve(gatherings.size());
  for (auto& [key, gathering] : gatherings) groups.push_back(std::move(gathering).finish());
  return groups;
}

PeakEvent describe(LiveTensors const& live, SimTime time) {
  BufferChange const& last = live.last;
  PeakEvent peak{.time = time,
                 .op = "start",
                 .phase = "",
                 .layer = last.layer_of_op(),
                 .microbatch = live.microbatch,
                 .chunk = last.chunk};
  if (last.op != nullptr) {
    peak.op = to_string(last.op->name);
    peak.phase = name_of(last.op->phase);
  } else if (last.is_message()) {
    bool const is_activation = last.payload == Transfer::Payload::activation;
    peak.op = is_activation ? "receive activation" : "receive gradient";
    peak.phase = "transfer";
  }
  return peak;
}

CategoryBytes sum_of(std::vector<TensorGroup> const& groups) {
  CategoryBytes sum;
  for (TensorGroup const& one : groups) sum[one.category] += one.bytes;
  return sum;
}

/// Appends what is never released: what the groups do not have of what is held at the peak.
void append_resident(std::vector<TensorGroup>& groups,
                     StagePlan const& stage,
                     CategoryBytes const& at_peak) {
  // Most of what units have comes and goes, so what stays is named.
  for (StateBuffer const& buffer : stage.state) {
    if (!buffer.is_resident() || row_of(buffer.category).kind != CategoryKind::units) continue;
    groups.push_back(
        {.tensor = to_string(step_tensors.at(static_cast<std::size_t>(buffer.tensor)).name),
         .stay = Stay::resident,
         .category = buffer.category,
         .made_by = {},
         .needed_by = {},
         .bytes = buffer.bytes().count(),
         .buffers = 1});
  }
  CategoryBytes const live = sum_of(groups);
  for (CategoryRow const& row : categories) {
    if (row.kind != CategoryKind::state && row.kind != CategoryKind::scratch) continue;
    std::int64_t const bytes = at_peak[row.category] - live[row.category];
    if (bytes == 0) continue;
    TensorGroup& one = groups.emplace_back();
    one.tensor = row.name;
    one.stay = Stay::resident;
    one.category = row.category;
    one.bytes = bytes;
    one.buffers = 1;
  }
}

}  // namespace

ReservedExplanation explain_reserved(TrainingPlan const& plan,
                                     System const& system,
                                     StageResult const& stage) {
  ReservedPeak peak;
  StageAllocators{plan, system}.reserve(StageId{stage.stage}, stage.rank(), &peak);
  ReservedExplanation result;
  result.stage = stage.stage;
  result.counted = stage.peak();
  result.request = peak.request;
  result.tensor = peak.tensor;
  result.is_in_step = peak.is_in_step;
  std::map<std::tuple<bool, bool, std::int64_t>, std::int64_t> free;
  for (MemoryBlock const& block : peak.blocks) {
    PoolUse& pool = block.is_small ? result.small : result.large;
    pool.reserved += block.size;
    result.reserved += block.size;
    if (block.is_live) {
      pool.live += block.size;
      result.requested += block.requested;
      result.rounding += block.size - block.requested;
      continue;
    }
    (block.is_split ? result.fragments : result.cached) += block.size;
    ++free[{block.is_small, block.is_split, block.size}];
  }
  for (auto const& [kind, blocks] : free) {
    auto const& [is_small, is_split, size] = kind;
    result.free.push_back(
        {.is_small = is_small, .is_split = is_split, .size = size, .blocks = blocks});
  }
  std::stable_sort(result.free.begin(), result.free.end(),
                   [](FreeSize const& a, FreeSize const& b) { return a.bytes() > b.bytes(); });
  return result;
}

PeakExplanation explain_peak(TrainingPlan const& plan,
                             Simulation const& simulation,
                             std::size_t stage) {
  StageResult const& result = simulation.stages[stage];
  RankPrograms const own{plan, result.rank()};
  std::int64_t const held = result.peak() - result.at_peak[Category::workspace];
  LiveTensors const live =
      live_tensors_at({plan, plan.stages[StageId::of_index(stage)], *own}, held);
  PeakExplanation peak{
      .stage = result.stage, .event = describe(live, result.peak_at), .tensors = {}};
  peak.tensors = group(live.buffers);
  append_resident(peak.tensors, plan.stages[StageId::of_index(stage)], result.at_peak);
  std::stable_sort(peak.tensors.begin(), peak.tensors.end(),
                   [](TensorGroup const& a, TensorGroup const& b) { return a.bytes > b.bytes; });
  if (sum_of(peak.tensors) != result.at_peak) {
    throw std::logic_error{"the live tensors of stage " + std::to_string(stage) +
                           " are not those of its peak"};
  }
  return peak;
}

}  // namespace stagecraft
