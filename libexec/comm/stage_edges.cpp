#include "libexec/comm/stage_edges.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

namespace stagecraft {
namespace {

StageEdge edge_of(Transfer const& transfer, StageId stage) {
  bool const is_send = transfer.end == Transfer::End::send;
  return {.payload = transfer.payload,
          .from = is_send ? stage : transfer.peer,
          .to = is_send ? transfer.peer : stage};
}

/// Calls `visit(stage, transfer)` for all transfers of the plan, for each stage in posting order.
template <typename Visit>
void visit_posts(TrainingPlan const& plan, Visit visit) {
  for (StageId const stage : plan.stages.ids()) {
    // Transfers are in the order of their posts.
    for (Transfer const& transfer : unroll(plan.stages[stage].program).transfers) {
      visit(stage, transfer);
    }
  }
}

}  // namespace

std::vector<std::vector<StageEdge>> edge_rounds(TrainingPlan const& plan) {
  std::set<StageEdge> edges;
  visit_posts(plan, [&](StageId stage, Transfer const& transfer) {
    edges.insert(edge_of(transfer, stage));
  });
  std::vector<std::vector<StageEdge>> rounds;
  for (StageEdge const& edge : edges) {
    auto const is_free = [&](std::vector<StageEdge> const& round) {
      return std::none_of(round.begin(), round.end(), [&](StageEdge const& other) {
        return other.from == edge.from || other.from == edge.to || other.to == edge.from ||
               other.to == edge.to;
      });
    };
    auto round = std::find_if(rounds.begin(), rounds.end(), is_free);
    if (round == rounds.end()) round = rounds.emplace(rounds.end());
    round->push_back(edge);
  }
  return rounds;
}

std::vector<StageEdge> message_edges(TrainingPlan const& plan) {
  std::vector<StageEdge> edges(static_cast<std::size_t>(plan.messages));
  visit_posts(plan, [&](StageId stage, Transfer const& transfer) {
    edges[static_cast<std::size_t>(transfer.message)] = edge_of(transfer, stage);
  });
  return edges;
}

void require_message_order(TrainingPlan const& plan) {
  std::map<StageEdge, std::vector<std::int32_t>> sent;
  std::map<StageEdge, std::vector<std::int32_t>> received;
  visit_posts(plan, [&](StageId stage, Transfer const& transfer) {
    auto& ends = transfer.end == Transfer::End::send ? sent : received;
    ends[edge_of(transfer, stage)].push_back(transfer.message);
  });
  if (sent != received) {
    throw std::logic_error{"the two ends of a connection post its messages in different orders"};
  }
}

}  // namespace stagecraft
