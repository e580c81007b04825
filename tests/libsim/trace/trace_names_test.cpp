#include "libsim/trace/trace_names.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "libsim/plan/make_plan.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft::trace_names_test {

namespace {

TrainingPlan plan_of(std::vector<std::string> const& overrides) {
  std::filesystem::path const path =
      std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs/paper/175b-present.yaml";
  return make_plan(as_settled(load_run_config(path, overrides).training));
}

}  // namespace

TEST_CASE("every op of a plan has a name in its traces, and no name stands there twice") {
  TrainingPlan const plan = plan_of({"parallel.data=2", "batch.global=128", "recompute=full"});
  TraceVocabulary const vocabulary{plan};
  TraceNames const& names = vocabulary.names();
  for (auto const& list : {names.op, names.phase, names.stream}) {
    REQUIRE(std::set<std::string>(list.begin(), list.end()).size() == list.size());
  }
  auto const has_name = [&](Op const& op) {
    return names.op[static_cast<std::size_t>(vocabulary.index_of(op.name))] == to_string(op.name);
  };
  for (BlockProgram const& block : plan.programs.blocks) {
    for (Op const& op : block.forward) REQUIRE(has_name(op));
    for (Op const& op : block.backward) REQUIRE(has_name(op));
  }
  for (StagePlan const& rank : plan.stages) {
    for (Op const& op : rank.step_ops) REQUIRE(has_name(op));
  }
}

TEST_CASE("transfers, whole chunks, phases and streams have their own names") {
  TraceVocabulary const vocabulary{plan_of({})};
  TraceNames const& names = vocabulary.names();
  auto const name = [&](Transfer::Payload payload, Transfer::End end) {
    Transfer transfer;
    transfer.payload = payload;
    transfer.end = end;
    std::string const stream = names.stream[static_cast<std::size_t>(stream_of(transfer))];
    return names.op[static_cast<std::size_t>(vocabulary.index_of(transfer))] + " on " + stream;
  };
  using Payload = Transfer::Payload;
  using End = Transfer::End;
  REQUIRE(name(Payload::activation, End::send) == "send.activation on send_activation");
  REQUIRE(name(Payload::gradient, End::send) == "send.gradient on send_gradient");
  REQUIRE(name(Payload::activation, End::receive) == "receive.activation on receive_activation");
  REQUIRE(name(Payload::gradient, End::receive) == "receive.gradient on receive_gradient");
  REQUIRE(names.op[TraceVocabulary::forward] == "forward");
  REQUIRE(names.op[TraceVocabulary::backward] == "backward");
  REQUIRE(names.op[TraceVocabulary::iteration_overhead] == "iteration_overhead");
  REQUIRE(names.phase[static_cast<std::size_t>(TracePhase::optimizer)] == "optimizer");
  REQUIRE(names.stream[static_cast<std::size_t>(Stream::tensor_parallel)] == "tensor_parallel");
}

}  // namespace stagecraft::trace_names_test
