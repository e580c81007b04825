#include "libsim/explain/peak_explanation.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "libsim/engine/rank_memory.hpp"
#include "libsim/explain/live_tensors.hpp"

namespace stagecraft {
namespace {

std::string name_of_message(Transfer::Payload payload) {
  return payload == Transfer::Payload::activation ? "message.activation" : "message.gradient";
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

Stay stay_of(LiveBuffer const& buffer) {
  if (buffer.block == nullptr) return Stay::message;
  if (is_kept(*buffer.block, buffer.tensor)) return Stay::kept;
  return buffer.category == Category::recomputed ? Stay::rebuilt : Stay::temporary;
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
  std::set<std::int32_t> microbatches;
  std::set<std::pair<std::int32_t, std::int32_t>> passes;

  void add(LiveBuffer const& buffer) {
    group.bytes += buffer.bytes;
    ++group.buffers;
    makers[buffer.maker == nullptr ? "received" : to_string(buffer.maker->name)] += buffer.bytes;
    if (buffer.layer >= 0) layers.insert(buffer.layer);
    microbatches.insert(buffer.microbatch);
    passes.insert({buffer.microbatch, buffer.chunk});
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

std::vector<TensorGroup> group(std::vector<LiveBuffer> const& buffers) {
  using Key = std::tuple<std::string, Stay, Category>;
  std::map<Key, Gathering> gatherings;
  for (LiveBuffer const& buffer : buffers) {
    bool const is_message = buffer.block == nullptr;
    std::string const tensor = is_message ? name_of_message(buffer.payload)
                                          : to_string(buffer.block->tensor(buffer.tensor).name);
    Stay const stay = stay_of(buffer);
    Gathering& gathering = gatherings[{tensor, stay, buffer.category}];
    if (gathering.group.buffers == 0) {
      gathering.group.tensor = tensor;
      gathering.group.stay = stay;
      gathering.group.category = buffer.category;
      if (stay == Stay::kept) {
        gathering.group.needed_by = first_user_in_backward(*buffer.block, buffer.tensor);
      }
    }
    gathering.add(buffer);
  }
  std::vector<TensorGroup> groups;
  groups.reserve(gatherings.size());
  for (auto& [key, gathering] : gatherings) groups.push_back(std::move(gathering).finish());
  return groups;
}

PeakEvent describe(MemoryEvent const& event, SimTime time) {
  PeakEvent peak{.time = time,
                 .op = "start",
                 .phase = "",
                 .layer = event.layer,
                 .microbatch = event.microbatch,
                 .chunk = event.chunk};
  if (event.op != nullptr) {
    peak.op = to_string(event.op->name);
    peak.phase = name_of(event.op->phase);
  } else if (event.transfer) {
    bool const is_activation = event.transfer->payload == Transfer::Payload::activation;
    peak.op = is_activation ? "receive activation" : "receive gradient";
    peak.phase = "transfer";
  }
  return peak;
}

/// What is there whatever happens.
void append_resident(std::vector<TensorGroup>& groups, CategoryBytes const& bytes) {
  for (Category const category :
       {Category::parameters, Category::gradients, Category::optimizer, Category::workspace}) {
    if (bytes[category] == 0) continue;
    TensorGroup& one = groups.emplace_back();
    one.tensor = name_of(category);
    one.stay = Stay::resident;
    one.category = category;
    one.bytes = bytes[category];
    one.buffers = 1;
  }
}

}  // namespace

PeakExplanation explain_peak(TrainingPlan const& plan,
                             Simulation const& simulation,
                             std::size_t stage) {
  StageResult const& result = simulation.stages[stage];
  RankPlan const& rank = plan.ranks[stage];
  std::int64_t const held = result.peak() - result.at_peak[Category::workspace];
  LiveTensors const live = live_tensors_at(plan, rank, held);
  PeakExplanation peak{
      .stage = result.stage, .event = describe(live.event, result.peak_at), .tensors = {}};
  peak.tensors = group(live.buffers);
  append_resident(peak.tensors, result.at_peak);
  std::stable_sort(peak.tensors.begin(), peak.tensors.end(),
                   [](TensorGroup const& a, TensorGroup const& b) { return a.bytes > b.bytes; });
  CategoryBytes sum;
  for (TensorGroup const& one : peak.tensors) sum[one.category] += one.bytes;
  if (sum != result.at_peak) {
    throw std::logic_error{"the live tensors of stage " + std::to_string(stage) +
                           " are not those of its peak"};
  }
  return peak;
}

}  // namespace stagecraft
