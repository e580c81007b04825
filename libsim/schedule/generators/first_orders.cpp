#include "libsim/schedule/generators/first_orders.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace stagecraft {

namespace {

/// The letter of a part (0 F, 1 I, 2 W) of a chunk.
std::uint16_t letter_at(int part, ChunkId chunk, int chunks) {
  return static_cast<std::uint16_t>(part * chunks + chunk.value());
}

/// Every microbatch passes through the whole pipeline before the next: least memory.
LetterOrder one_by_one(Placement const& placement, int microbatches) {
  LetterOrder order{placement, microbatches, {}};
  int const chunks = placement.chunks();
  for (StageId const stage : placement.stage_ids()) {
    std::vector<ChunkId> by_stage;
    for (ChunkId const chunk : placement.chunk_ids()) by_stage.push_back(chunk);
    std::sort(by_stage.begin(), by_stage.end(), [&](ChunkId a, ChunkId b) {
      return placement.virtual_stage({stage, a}) < placement.virtual_stage({stage, b});
    });
    auto& letters = order.stages.emplace_back();
    for (int k = 0; k < microbatches; ++k) {
      for (ChunkId const chunk : by_stage) letters.push_back(letter_at(0, chunk, chunks));
      for (auto chunk = by_stage.rbegin(); chunk != by_stage.rend(); ++chunk) {
        letters.push_back(letter_at(1, *chunk, chunks));
        letters.push_back(letter_at(2, *chunk, chunks));
      }
    }
  }
  return order;
}

/// The task that a stage runs first if it could run a forward and an input gradient.
enum class Preference { gradients, forwards };

/// Whether the weight gradient runs right after its input gradient, as one whole backward.
enum class Backward { split, whole };

/// Builds an order in time: a stage that is free runs what has arrived, or a weight gradient if
/// nothing has.
class ListScheduler {
 public:
  ListScheduler(Placement const& placement,
                int microbatches,
                StageTicks const& costs,
                MemoryChanges const& memory,
                double memory_limit)
      : costs_{costs},
        memory_{memory},
        limit_{memory_limit * (1 + 1e-9)},
        stages_(static_cast<std::size_t>(placement.stages())),
        ends_(2 * static_cast<std::size_t>(placement.virtual_stages())) {
    order_.placement = placement;
    order_.microbatches = microbatches;
    order_.stages.resize(stages_.size());
    for (StageState& stage : stages_) stage.counts.resize(3 * chunks());
  }

  /// Returns nullopt if no stage can go on within the memory limit.
  std::optional<LetterOrder> run(Preference preference, Backward backward) && {
    std::size_t left =
        stages_.size() * 3 * chunks() * static_cast<std::size_t>(order_.microbatches);
    for (; left > 0; --left) {
      std::optional<Choice> first;
      std::size_t on_stage = 0;
      for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
        auto const choice = choice_of(stage, preference);
        if (!choice || (first && choice->start >= first->start)) continue;
        first = choice;
        on_stage = stage;
      }
      if (!first) return std::nullopt;
      put(on_stage, *first);
      if (backward == Backward::split || first->part != 1) continue;
      put_weights(on_stage, *first);
      --left;
    }
    return std::move(order_);
  }

 private:
  struct StageState {
    SimTime free{0};
    double held = 0;
    std::vector<std::int32_t> counts;  ///< by letter
  };
  struct Choice {
    SimTime start{0};
    int part = 0;
    ChunkId chunk{};
  };

  std::size_t chunks() const { return static_cast<std::size_t>(order_.placement.chunks()); }

  std::int32_t count(std::size_t stage, int part, ChunkId chunk) const {
    return stages_[stage].counts[letter_at(part, chunk, order_.placement.chunks())];
  }

  /// When the next forward (part 0) or input gradient (part 1) of a chunk could start; nullopt if
  /// there is none whose input is made.
  std::optional<SimTime> arrival(std::size_t stage, int part, ChunkId chunk) const {
    Placement const& placement = order_.placement;
    std::int32_t const microbatch = count(stage, part, chunk);
    if (microbatch >= order_.microbatches) return std::nullopt;
    VirtualStageId const here = placement.virtual_stage({StageId::of_index(stage), chunk});
    if (part == 0 && placement.is_first(here)) return SimTime{0};
    bool const is_turn = part == 1 && placement.is_last(here);
    VirtualStageId const there = is_turn ? here : part == 0 ? previous(here) : next(here);
    std::size_t const stream =
        part == 0 || is_turn ? forward_stream(there) : gradient_stream(there);
    if (static_cast<std::size_t>(microbatch) >= ends_[stream].size()) return std::nullopt;
    bool const is_here = placement.place(there).stage == StageId::of_index(stage);
    return ends_[stream][static_cast<std::size_t>(microbatch)] +
           (is_here ? SimTime{0} : costs_.of(std::min(here, there)).transfer);
  }

  std::optional<Choice> choice_of(std::size_t stage, Preference preference) const {
    StageState const& state = stages_[stage];
    std::optional<Choice> best;
    bool const gradients_first = preference == Preference::gradients;
    for (int const part : {gradients_first ? 1 : 0, gradients_first ? 0 : 1}) {
      double const change = part == 0 ? memory_.forward : memory_.input_gradient;
      if (state.held + change > limit_) continue;
      for (int number = order_.placement.chunks(); number-- > 0;) {
        ChunkId const chunk{number};
        auto const arrived = arrival(stage, part, chunk);
        if (!arrived) continue;
        SimTime const start = std::max(*arrived, state.free);
        if (!best || start < best->start) best = Choice{start, part, chunk};
      }
    }
    if (best && best->start == state.free) return best;
    for (ChunkId const chunk : order_.placement.chunk_ids()) {
      if (count(stage, 2, chunk) >= count(stage, 1, chunk)) continue;
      bool const is_short = best && state.free + ticks(stage, chunk).weight_gradient > best->start;
      if (!is_short) return Choice{state.free, 2, chunk};
    }
    return best;
  }

  void put(std::size_t stage, Choice const& choice) {
    StageState& state = stages_[stage];
    Placement const& placement = order_.placement;
    VirtualStageId const here = placement.virtual_stage({StageId::of_index(stage), choice.chunk});
    SplitTicks const& costs = costs_.of(here);
    SimTime const cost = choice.part == 0   ? costs.forward
                         : choice.part == 1 ? costs.input_gradient
                                            : costs.weight_gradient;
    state.free = choice.start + cost;
    state.held += choice.part == 0   ? memory_.forward
                  : choice.part == 1 ? memory_.input_gradient
                                     : memory_.weight_gradient;
    std::uint16_t const each = letter_at(choice.part, choice.chunk, placement.chunks());
    ++state.counts[each];
    order_.stages[stage].push_back(each);
    if (choice.part == 2) return;
    std::size_t const stream = choice.part == 0 ? forward_stream(here) : gradient_stream(here);
    ends_[stream].push_back(state.free);
  }

  /// Makes the input gradient that a stage has just been given a whole backward.
  void put_weights(std::size_t stage, Choice const& gradient) {
    VirtualStageId const here = virtual_stage(stage, gradient.chunk);
    put(stage, {stages_[stage].free, 2, gradient.chunk});
    stages_[stage].free -= costs_.of(here).joint;
    ends_[gradient_stream(here)].back() = stages_[stage].free;
  }

  /// The indices of the ends of a virtual stage's forwards, and of its input gradients.
  static std::size_t forward_stream(VirtualStageId virtual_stage) { return virtual_stage.index(); }
  std::size_t gradient_stream(VirtualStageId virtual_stage) const {
    return static_cast<std::size_t>(order_.placement.virtual_stages()) + virtual_stage.index();
  }

  VirtualStageId virtual_stage(std::size_t stage, ChunkId chunk) const {
    return order_.placement.virtual_stage({StageId::of_index(stage), chunk});
  }
  SplitTicks const& ticks(std::size_t stage, ChunkId chunk) const {
    return costs_.of(virtual_stage(stage, chunk));
  }

  StageTicks costs_;
  MemoryChanges memory_;
  double limit_;
  LetterOrder order_;
  std::vector<StageState> stages_;
  /// Ends of forwards, then of gradients, by virtual stage.
  std::vector<std::vector<SimTime>> ends_;
};

bool is_legal_order(LetterOrder const& order, MemoryChanges const& memory, double memory_limit) {
  return std::all_of(order.stages.begin(), order.stages.end(), [&](auto const& stage) {
    return is_stage_legal(stage, order.placement.chunks(), memory, memory_limit);
  });
}

}  // namespace

std::vector<LetterOrder> first_orders(OrderRequest const& request,
                                      Placement const& placement,
                                      StageTicks const& costs,
                                      std::vector<PipelineOrder> const& named,
                                      double memory_limit) {
  std::vector<LetterOrder> orders;
  auto const add = [&](std::optional<LetterOrder> const& order) {
    if (order && order->placement == placement &&
        is_legal_order(*order, request.memory, memory_limit)) {
      orders.push_back(*order);
    }
  };
  for (PipelineOrder const& order : named) add(letters_of(order));
  for (Backward const backward : {Backward::split, Backward::whole}) {
    if (backward == Backward::whole && !costs.joins()) continue;
    for (Preference const preference : {Preference::gradients, Preference::forwards}) {
      add(ListScheduler{placement, request.microbatches, costs, request.memory, memory_limit}.run(
          preference, backward));
    }
  }
  add(one_by_one(placement, request.microbatches));
  return orders;
}

}  // namespace stagecraft
