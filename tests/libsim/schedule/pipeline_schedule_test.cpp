#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <tuple>

#include "libsim/schedule/schedule_layout.hpp"
#include "tests/libsim/schedule/legal_shapes.hpp"

namespace stagecraft::pipeline_schedule_test {

namespace {

int chunks_in_flight(PipelineOrder const& order, std::size_t rank) {
  return most_in_flight(order, rank, InFlight::until_weight_gradient);
}

/// One stage's transfers [first, first + count).
std::vector<Transfer> transfers_of(IssueOrder const& stage, IssueEntry const& step) {
  auto const begin = stage.transfers.begin() + step.first;
  return {begin, begin + step.count};
}

bool is_computation(IssueEntry const& step) { return step.kind == IssueEntry::Kind::run; }

/// The issue orders of all stages.
std::vector<IssueOrder> orders_of(PipelineSchedule const& schedule) {
  std::vector<IssueOrder> orders;
  for (StageProgram const& program : schedule.stages) orders.push_back(unroll(program));
  return orders;
}

/// Global place of a chunk in the model.
int virtual_stage(ScheduleShape const& shape, std::size_t stage, int chunk) {
  return chunk * shape.stages + static_cast<int>(stage);
}

}  // namespace

TEST_CASE("every message is sent once and received once, by neighbouring virtual stages") {
  for (P2p const p2p : {P2p::blocking, P2p::overlapped}) {
    for (ScheduleShape const& shape : all_shapes(p2p)) {
      PipelineSchedule const schedule = make_pipeline_schedule(shape);
      // An activation and a gradient of each microbatch cross each boundary between virtual stages.
      REQUIRE(schedule.messages == 2 * shape.microbatches * (shape.stages * shape.chunks - 1));

      struct Ends {
        int sends = 0, receives = 0;
        int from = 0, to = 0;          // virtual stages
        int sender = 0, receiver = 0;  // as each end sees the other
        MicrobatchId sent{}, received{};
        Transfer::Payload out{}, in{};
        int sending_stage = 0, receiving_stage = 0;
      };
      std::vector<Ends> ends(static_cast<std::size_t>(schedule.messages));
      for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage) {
        for (Transfer const& transfer :
             unroll(schedule.stages[StageId::of_index(stage)]).transfers) {
          Ends& end = ends.at(static_cast<std::size_t>(transfer.message));
          if (transfer.end == Transfer::End::send) {
            ++end.sends;
            end.from = virtual_stage(shape, stage, transfer.chunk.value());
            end.sending_stage = static_cast<int>(stage);
            end.receiver = transfer.peer.value();
            end.sent = transfer.microbatch;
            end.out = transfer.payload;
          } else {
            ++end.receives;
            end.to = virtual_stage(shape, stage, transfer.chunk.value());
            end.receiving_stage = static_cast<int>(stage);
            end.sender = transfer.peer.value();
            end.received = transfer.microbatch;
            end.in = transfer.payload;
          }
        }
      }
      bool const all_match = std::all_of(ends.begin(), ends.end(), [](Ends const& end) {
        int const hop = end.out == Transfer::Payload::activation ? 1 : -1;
        return end.sends == 1 && end.receives == 1 && end.to == end.from + hop &&
               end.in == end.out && end.sent == end.received && end.sender == end.sending_stage &&
               end.receiver == end.receiving_stage;
      });
      CAPTURE(shape.stages, shape.microbatches, shape.chunks, shape.group);
      REQUIRE(all_match);
    }
  }
}

TEST_CASE("a computation follows the wait for its input and precedes the post of its output") {
  for (P2p const p2p : {P2p::blocking, P2p::overlapped}) {
    for (ScheduleShape const& shape : all_shapes(p2p)) {
      CAPTURE(shape.stages, shape.microbatches, shape.chunks, shape.group);
      PipelineSchedule const schedule = make_pipeline_schedule(shape);
      for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage) {
        using Key = std::tuple<Transfer::Payload, MicrobatchId, int>;  // the last is the chunk
        std::map<Key, int> received;
        std::map<Key, int> made;
        bool is_sound = true;
        int const last = shape.stages * shape.chunks - 1;
        IssueOrder const order = unroll(schedule.stages[StageId::of_index(stage)]);
        for (IssueEntry const& step : order.entries) {
          if (step.kind == IssueEntry::Kind::wait) {
            for (Transfer const& t : transfers_of(order, step)) {
              if (t.end == Transfer::End::receive)
                ++received[{t.payload, t.microbatch, t.chunk.value()}];
            }
          } else if (step.kind == IssueEntry::Kind::post) {
            for (Transfer const& t : transfers_of(order, step)) {
              if (t.end == Transfer::End::send) {
                is_sound = is_sound && made[{t.payload, t.microbatch, t.chunk.value()}] == 1;
              }
            }
          } else {
            ChunkRun const run = schedule.run_of(step);
            bool const is_forward = run.pass == Pass::forward;
            auto const payload =
                is_forward ? Transfer::Payload::activation : Transfer::Payload::gradient;
            int const here = virtual_stage(shape, stage, run.chunk.value());
            bool const needs_input = is_forward ? here > 0 : here < last;
            is_sound = is_sound && received[{payload, run.microbatch, run.chunk.value()}] ==
                                       (needs_input ? 1 : 0);
            ++made[{payload, run.microbatch, run.chunk.value()}];
          }
        }
        REQUIRE(is_sound);
      }
    }
  }
}

TEST_CASE("messages of one payload between two stages are received in the order they are sent") {
  for (P2p const p2p : {P2p::blocking, P2p::overlapped}) {
    for (ScheduleShape const& shape : all_shapes(p2p)) {
      CAPTURE(shape.stages, shape.microbatches, shape.chunks, shape.group);
      PipelineSchedule const schedule = make_pipeline_schedule(shape);
      using Channel = std::tuple<StageId, StageId, Transfer::Payload>;  // sender, receiver, payload
      std::map<Channel, std::vector<int>> sent;
      std::map<Channel, std::vector<int>> received;
      for (StageId const stage : schedule.stages.ids()) {
        for (Transfer const& t : unroll(schedule.stages[stage]).transfers) {
          if (t.end == Transfer::End::send) {
            sent[{stage, t.peer, t.payload}].push_back(t.message);
          } else {
            received[{t.peer, stage, t.payload}].push_back(t.message);
          }
        }
      }
      REQUIRE(sent == received);
    }
  }
}

TEST_CASE("with blocking p2p a post is directly followed by the wait for the same transfers") {
  for (ScheduleShape const& shape : all_shapes(P2p::blocking)) {
    PipelineSchedule const schedule = make_pipeline_schedule(shape);
    for (IssueOrder const& stage : orders_of(schedule)) {
      std::int32_t posted = 0;
      for (std::size_t i = 0; i < stage.entries.size(); ++i) {
        IssueEntry const& step = stage.entries[i];
        if (is_computation(step)) continue;
        REQUIRE(step.kind == IssueEntry::Kind::post);
        IssueEntry const& next = stage.entries.at(++i);
        REQUIRE(next.kind == IssueEntry::Kind::wait);
        REQUIRE(next.first == step.first);
        REQUIRE(next.count == step.count);
        REQUIRE(step.first == posted);
        posted += step.count;
      }
      REQUIRE(posted == static_cast<std::int32_t>(stage.transfers.size()));
    }
  }
}

TEST_CASE("with overlapped p2p one computation lies between a post and its wait") {
  for (ScheduleShape const& shape : all_shapes(P2p::overlapped)) {
    CAPTURE(shape.stages, shape.microbatches, shape.chunks, shape.group);
    PipelineSchedule const schedule = make_pipeline_schedule(shape);
    for (IssueOrder const& stage : orders_of(schedule)) {
      std::vector<int> posted(stage.transfers.size(), -1);  // computations before the post
      int const computations = 2 * shape.microbatches * shape.chunks;
      int done = 0;
      bool is_sound = true;
      std::size_t waited = 0;
      for (IssueEntry const& step : stage.entries) {
        if (is_computation(step)) ++done;
        for (std::int32_t i = step.first; i < step.first + step.count; ++i) {
          int& at = posted[static_cast<std::size_t>(i)];
          if (step.kind == IssueEntry::Kind::post) {
            at = done;
          } else {
            // The first input has nothing to hide behind, nor has the last output.
            bool const is_at_an_end = done == 0 || at == computations;
            is_sound = is_sound && at >= 0 && (done == at + 1 || is_at_an_end);
            ++waited;
          }
        }
      }
      REQUIRE(is_sound);
      REQUIRE(waited == stage.transfers.size());
    }
  }
}

TEST_CASE("a steady interleaved step exchanges its four messages in one call") {
  // Stage 1 of p = 4, n = 8, m = 2 (G = 4) warms up with 2 * 2 + 4 = 8 forwards. Its second steady
  // step is F5.0 (virtual forward 9) and B1.1 (virtual backward 1), recorded in Megatron-LM as one
  // joint call that also receives the inputs of virtual forward 10 and backward 2.
  PipelineSchedule const schedule =
      make_pipeline_schedule({ScheduleKind::interleaved, 4, 8, 2, 0, P2p::blocking});
  IssueOrder const stage = unroll(schedule.stages[StageId{1}]);
  auto const runs = [&](IssueEntry const& entry, ChunkRun const& run) {
    return is_computation(entry) && schedule.run_of(entry) == run;
  };
  auto const backward =
      std::find_if(stage.entries.begin(), stage.entries.end(), [&](auto const& entry) {
        return runs(entry, {Pass::backward, MicrobatchId{1}, ChunkId{1}});
      });
  REQUIRE(runs(*(backward - 1), {Pass::forward, MicrobatchId{5}, ChunkId{0}}));
  std::vector<Transfer> const exchange = transfers_of(stage, *(backward + 1));
  REQUIRE(exchange.size() == 4);
  auto const has = [&](Transfer::Payload payload, Transfer::End end, int peer, int microbatch,
                       int chunk) {
    return std::count_if(exchange.begin(), exchange.end(), [&](Transfer const& t) {
             return t.payload == payload && t.end == end && t.peer.value() == peer &&
                    t.microbatch.value() == microbatch && t.chunk.value() == chunk;
           }) == 1;
  };
  using enum Transfer::Payload;
  using enum Transfer::End;
  REQUIRE(has(activation, send, 2, 5, 0));
  REQUIRE(has(activation, receive, 0, 6, 0));
  REQUIRE(has(gradient, send, 0, 1, 1));
  REQUIRE(has(gradient, receive, 2, 2, 1));
}

TEST_CASE("the interleaved peak in flight is min(nm, 2(p-r-1) + (m-1)G + 1)") {
  // Recorded from Megatron-LM for the oracle's shapes; here for every small legal shape.
  for (ScheduleShape const& shape : interleaved_shapes(P2p::overlapped)) {
    PipelineOrder const order = order_of(make_pipeline_schedule(shape));
    for (int r = 0; r < shape.stages; ++r) {
      CAPTURE(shape.stages, shape.microbatches, shape.chunks, shape.group, r);
      int const expected =
          std::min(shape.microbatches * shape.chunks,
                   2 * (shape.stages - r - 1) + (shape.chunks - 1) * shape.group + 1);
      REQUIRE(chunks_in_flight(order, static_cast<std::size_t>(r)) == expected);
    }
  }
}

TEST_CASE("1F1B holds min(n, p - r) microbatches on stage r, GPipe all n") {
  for (ScheduleShape const& shape : plain_shapes(ScheduleKind::one_f_one_b, P2p::blocking)) {
    PipelineOrder const order = order_of(make_pipeline_schedule(shape));
    for (int r = 0; r < shape.stages; ++r) {
      REQUIRE(chunks_in_flight(order, static_cast<std::size_t>(r)) ==
              std::min(shape.microbatches, shape.stages - r));
    }
  }
  for (ScheduleShape const& shape : plain_shapes(ScheduleKind::gpipe, P2p::blocking)) {
    PipelineOrder const order = order_of(make_pipeline_schedule(shape));
    for (std::size_t stage = 0; stage < order.stages.size(); ++stage) {
      REQUIRE(chunks_in_flight(order, stage) == shape.microbatches);
    }
  }
}

TEST_CASE("stage 0 holds 1 + (p-1)/(pm) times the model's layers, where the paper's case holds") {
  // Korthikanti et al. 2022, section 4.2.3. A chunk is 1/(pm) of the layers.
  auto const factor = [](int p, int n, int m, int group) {
    PipelineOrder const order = order_of(
        make_pipeline_schedule({ScheduleKind::interleaved, p, n, m, group, P2p::blocking}));
    return static_cast<double>(chunks_in_flight(order, 0)) / (p * m);
  };
  REQUIRE(factor(4, 8, 2, 0) == 1.375);                      // 1 + 3/8: G = p, n = 2p
  REQUIRE(factor(8, 64, 3, 0) == 1 + 7.0 / 24);              // the paper's 175B
  REQUIRE(factor(35, 280, 3, 0) == Approx(1 + 34.0 / 105));  // the paper's 530B
  REQUIRE(factor(4, 4, 2, 0) == 1.0);     // n = p: there is no more than p * m to hold
  REQUIRE(factor(4, 16, 2, 8) == 1.875);  // G = 8 > p: 2 * 3 + 8 + 1 = 15 of 8 chunks
  REQUIRE(factor(2, 8, 4, 4) == 1.875);   // 2 + 3 * 4 + 1 = 15 of 8 chunks
}

TEST_CASE("a shape that no schedule has is refused with what was found and what is accepted") {
  using Catch::Contains;
  auto const make = [](ScheduleKind kind, int p, int n, int m, int group) {
    return make_pipeline_schedule({kind, p, n, m, group, P2p::blocking});
  };
  using enum ScheduleKind;
  REQUIRE_THROWS_WITH(make(gpipe, 0, 4, 1, 0),
                      "pipeline stages: found '0'; accepted: a whole number from 1");
  REQUIRE_THROWS_WITH(make(one_f_one_b, 4, -1, 1, 0),
                      "microbatches: found '-1'; accepted: a whole number from 1");
  REQUIRE_THROWS_WITH(make(interleaved, 4, 8, 0, 0), Contains("chunks per stage: found '0'"));
  REQUIRE_THROWS_WITH(
      make(one_f_one_b, 4, 8, 2, 0),
      "chunks per stage: found '2'; accepted: 1 unless the schedule is interleaved");
  REQUIRE_THROWS_WITH(make(gpipe, 4, 8, 1, 4), Contains("microbatches per group: found '4'"));
  REQUIRE_THROWS_WITH(make(interleaved, 1, 8, 2, 0),
                      Contains("found '1'; accepted: a whole number from 2"));
  REQUIRE_THROWS_WITH(make(interleaved, 4, 3, 2, 0),
                      Contains("found '3'; accepted: at least the number"));
  REQUIRE_THROWS_WITH(make(interleaved, 4, 8, 2, 3),
                      Contains("microbatches per group: found '3'; accepted: 4, 8"));
  REQUIRE_THROWS_WITH(make(interleaved, 4, 8, 2, 9), Contains("found '9'; accepted: 4, 8"));
  REQUIRE_THROWS_WITH(make(interleaved, 4, 10, 2, 8),
                      Contains("found '8'; accepted: 5, 6, 10"));  // rest 2 < p
  REQUIRE_THROWS_AS(make(one_f_one_b, 4, 1'000'000'000, 1, 0), ScheduleError);
  REQUIRE_THROWS_AS(make(interleaved, 2'000'000'000, 2'000'000'000, 2'000'000'000, 0),
                    ScheduleError);
  REQUIRE_NOTHROW(make(interleaved, 4, 12, 2, 8));  // rest 4 = p
}

}  // namespace stagecraft::pipeline_schedule_test
