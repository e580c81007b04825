#include "libsim/memory/buffer_events.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/odd_runs.hpp"
#include "tests/libsim/sharded_runs.hpp"
#include "tests/libsim/split_runs.hpp"

namespace stagecraft::buffer_events_test {
namespace {

using Kind = BufferChange::Kind;

/// What the buffers of a stage are at an instant, each under the name that it has then.
class NamedBuffers {
 public:
  void take(BufferEvent const& event) {
    BufferChange const& change = *event.change;
    auto const found = names_.find(event.buffer);
    if (change.kind == Kind::allocate) {
      // Numbers follow the order of allocation.
      REQUIRE(event.buffer == allocated_++);
      names_[event.buffer] = event;
    } else {
      REQUIRE(found != names_.end());
      REQUIRE(found->second.change->bytes == change.bytes);
      REQUIRE(found->second.change->category == change.category);
      // Sharded units hand buffers over to later microbatches.
      bool const is_handed = change.kind == Kind::hand_over;
      REQUIRE((is_handed || found->second.microbatch == event.microbatch));
      if (change.kind == Kind::release) {
        REQUIRE(found->second.change->name() == change.name());
        names_.erase(found);
      } else {
        found->second = event;
      }
    }
  }
  /// Whether a tensor of a block has a buffer, for the microbatch's pass through a chunk.
  bool has(BlockProgram const& block,
           std::int64_t first_layer,
           TensorId tensor,
           std::int32_t chunk,
           MicrobatchId microbatch) const {
    return std::any_of(names_.begin(), names_.end(), [&](auto const& entry) {
      BufferChange const& change = *entry.second.change;
      return change.block == &block && change.first_layer == first_layer &&
             change.tensor == block.tensor(tensor).buffer && change.chunk == chunk &&
             entry.second.microbatch == microbatch;
    });
  }
  std::map<std::int64_t, BufferEvent> const& all() const { return names_; }

 private:
  std::map<std::int64_t, BufferEvent> names_;
  std::int64_t allocated_ = 0;
};

std::vector<OddRun> all_runs() {
  std::vector<OddRun> runs = odd_runs();
  std::vector<OddRun> const split = split_runs();
  runs.insert(runs.end(), split.begin(), split.end());
  std::vector<OddRun> const sharded = sharded_runs();
  runs.insert(runs.end(), sharded.begin(), sharded.end());
  return runs;
}

bool is_on_the_job(BlockProgram const& block, TensorId tensor) {
  return block.tensor(block.tensor(tensor).buffer).lifetime == Lifetime::job;
}

}  // namespace

TEST_CASE("a buffer is allocated once, released once under its last name, and keeps its size",
          "[buffers]") {
  for (OddRun const& run : all_runs()) {
    TrainingPlan const plan = make_plan(as_settled(run.config));
    for (StagePlan const& stage : plan.stages) {
      CAPTURE(run.name, stage.stage.value());
      IssueOrder const order = unroll(stage.program);
      BufferEvents events{{plan, stage}};
      NamedBuffers buffers;
      std::int32_t entries = -1;
      while (events.next()) {
        REQUIRE(events.entry() == entries++);
        for (BufferEvent const& event : events.now()) buffers.take(event);
      }
      REQUIRE(entries == static_cast<std::int32_t>(order.entries.size()));
      for (auto const& [number, event] : buffers.all()) {
        bool const is_gradient = event.change->category == Category::gradients;
        REQUIRE((event.change->is_resident() || is_gradient));
      }
    }
  }
}

TEST_CASE("the operands of an op have their buffers once its own are allocated", "[buffers]") {
  for (OddRun const& run : all_runs()) {
    TrainingPlan const plan = make_plan(as_settled(run.config));
    for (StagePlan const& stage : plan.stages) {
      IssueOrder const order = unroll(stage.program);
      BufferEvents events{{plan, stage}};
      NamedBuffers buffers;
      std::set<std::pair<std::int32_t, Op const*>> seen;  // ops by task: once each is enough
      while (events.next()) {
        std::span<BufferEvent const> const now = events.now();
        for (std::size_t i = 0; i < now.size(); ++i) {
          buffers.take(now[i]);
          BufferChange const& change = *now[i].change;
          bool const is_last = i + 1 == now.size() || now[i + 1].change->op != change.op ||
                               now[i + 1].change->kind != Kind::allocate;
          if (change.op == nullptr || change.kind != Kind::allocate || !is_last) continue;
          std::int32_t const task = order.entries[static_cast<std::size_t>(events.entry())].task;
          if (!seen.insert({task, change.op}).second) continue;
          for (TensorList const& operands : {change.op->reads, change.op->writes}) {
            for (TensorId const tensor : operands) {
              if (is_on_the_job(*change.block, tensor)) continue;
              CAPTURE(run.name, stage.stage.value(), to_string(change.op->name), tensor);
              REQUIRE(buffers.has(*change.block, change.first_layer, tensor, change.chunk,
                                  now[i].microbatch));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("a chunk's output leaves as a message, whose name the buffer has until its send is over",
          "[buffers]") {
  // 1F1B on two stages, blocking: forward, exchange, ... The first stage's only sends are outputs.
  TrainingConfig config = modest_run(1, 2);
  bool const is_kept = GENERATE(false, true);
  config.memory.output_deallocation = !is_kept;
  TrainingPlan const plan = make_plan(as_settled(config));
  StagePlan const& stage = plan.stages[StageId{0}];
  IssueOrder const order = unroll(stage.program);
  BufferEvents events{{plan, stage}};
  std::map<MicrobatchId, std::int64_t> sent;
  while (events.next()) {
    for (BufferEvent const& event : events.now()) {
      if (event.change->name() != "message.activation") continue;
      IssueEntry const& entry = order.entries[static_cast<std::size_t>(events.entry())];
      if (event.change->kind == Kind::hand_over) {
        REQUIRE(entry.kind == IssueEntry::Kind::run);
        REQUIRE(stage.tasks[static_cast<std::size_t>(entry.task)].kind == Task::Kind::forward);
        sent[event.microbatch] = event.buffer;
        continue;
      }
      REQUIRE(event.change->kind == Kind::release);
      REQUIRE(sent.at(event.microbatch) == event.buffer);
      // Appendix B: without deallocation the output stays until its backward is over.
      bool const in_backward =
          entry.kind == IssueEntry::Kind::run &&
          stage.tasks[static_cast<std::size_t>(entry.task)].kind == Task::Kind::backward;
      REQUIRE(in_backward == is_kept);
      sent.erase(event.microbatch);
    }
  }
  REQUIRE(sent.empty());
}

TEST_CASE("resident buffers come before the first entry, 18 bytes per parameter in all",
          "[buffers]") {
  TrainingPlan const plan = make_plan(as_settled(modest_run(2, 4)));
  BufferEvents events{{plan, plan.stages[StageId{1}]}};
  REQUIRE(events.next());
  REQUIRE(events.entry() == -1);
  std::map<std::string, std::int64_t> bytes;
  for (BufferEvent const& event : events.now()) {
    bytes[event.change->name()] += event.change->bytes;
  }
  std::int64_t const n = plan.stages[StageId{1}].parameters;
  REQUIRE(bytes == std::map<std::string, std::int64_t>{
                       {"parameters", 2 * n}, {"gradients", 4 * n}, {"optimizer", 12 * n}});
}

}  // namespace stagecraft::buffer_events_test
