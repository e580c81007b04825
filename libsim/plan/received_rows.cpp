#include "libsim/plan/received_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/plan/last_ranks.hpp"

namespace stagecraft {
namespace {

std::int64_t sum_of(std::vector<std::int64_t> const& by_expert) {
  return std::accumulate(by_expert.begin(), by_expert.end(), std::int64_t{0});
}

/// The rows of each expert if an expert of a group's first rank has `factor` times as many rows as
/// with balanced routing.
std::vector<std::int64_t> hot_rows(ExpertsConfig const& experts,
                                   int ranks,
                                   std::int64_t tokens,
                                   double factor) {
  std::int64_t const local = experts.count / ranks;
  std::int64_t const choices = tokens * experts.per_token;
  auto const wanted = static_cast<std::int64_t>(
      std::ceil(factor * static_cast<double>(choices) / static_cast<double>(experts.count) - 1e-9));
  std::int64_t const hot = std::min({wanted, tokens, choices / local});
  std::vector<std::int64_t> rows(static_cast<std::size_t>(experts.count), hot);
  std::int64_t const others = experts.count - local;
  if (others == 0) return rows;
  std::int64_t const left = choices - hot * local;
  for (std::int64_t i = 0; i < others; ++i) {
    // The whole rows of the first i + 1 experts less those of the first i.
    rows[static_cast<std::size_t>(local + i)] = left * (i + 1) / others - left * i / others;
  }
  return rows;
}

/// With one rank per group, which is then as hot as all others are, routing is balanced: the rows
/// are as even as they can be.
std::vector<std::int64_t> even_rows(ExpertsConfig const& experts, std::int64_t tokens) {
  std::int64_t const choices = tokens * experts.per_token;
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < experts.count; ++i) {
    rows.push_back(choices * (i + 1) / experts.count - choices * i / experts.count);
  }
  return rows;
}

}  // namespace

std::shared_ptr<ForcedRouting const> forced_routing(TrainingConfig const& config) {
  if (!config.routing.is_forced()) return nullptr;
  auto forced = std::make_shared<ForcedRouting>();
  std::int64_t const tokens = config.model.sequence * config.batch.micro;
  if (config.routing.counts) {
    for (CountsOfLayer const& counts : config.routing.counts->layers) {
      forced->add(counts.layer, counts.microbatch, ForcedCounts{counts.rows, tokens});
    }
    return forced;
  }
  int const ranks = config.parallel.expert;
  LayerKinds const kinds = kinds_with_predictions(config.model);
  for (int layer = 0; layer < kinds.layers(); ++layer) {
    std::optional<ExpertsConfig> const& experts = kinds.of_layer(layer).experts;
    if (!experts) continue;
    forced->add(layer, every_microbatch,
                {ranks == 1 ? even_rows(*experts, tokens)
                            : hot_rows(*experts, ranks, tokens, *config.routing.factor),
                 tokens});
  }
  return forced;
}

ReceivedRows::ReceivedRows(TrainingPlan const& plan)
    : plan_{plan}, config_{plan.config}, shape_{plan.shape}, forced_{plan.forced.get()} {}

ReceivedRows::ExpertRanks::ExpertRanks(TrainingPlan const& plan) {
  RankGroups const& all = plan.groups;
  GroupRoles const& roles = plan.roles;
  TrainingConfig const& config = plan.config;
  std::map<RankId, std::size_t> known;  // by first member
  auto const replica = static_cast<std::size_t>(config.parallel.tensor) *
                       static_cast<std::size_t>(config.parallel.context);
  for (int rank = 0; rank < all.ranks_per_stage(); ++rank) {
    GroupMembership group{{RankId{rank}}, 0};
    if (roles.expert) group = all.membership(*roles.expert, RankId{rank}).value_or(group);
    auto const [at, is_new] = known.emplace(group.members.front(), groups.size());
    position.emplace_back(at->second, group.member);
    std::vector<int>& of_rank = sharers.emplace_back();
    GroupMembership sharing{{RankId{rank}}, 0};
    if (roles.expert_tensor) {
      sharing = all.membership(*roles.expert_tensor, RankId{rank}).value_or(sharing);
    }
    for (RankId const member : sharing.members) of_rank.push_back(member.value());
    if (!is_new) continue;
    ExpertGroup& made = groups.emplace_back();
    made.members = group.members;
    std::map<int, std::size_t> of_replica;
    for (RankId const member : group.members) {
      made.places.push_back(place_of(all, member));
      ++of_replica[made.places.back().data];
    }
    made.replicas = std::ssize(of_replica);
    made.has_whole_replicas =
        std::all_of(of_replica.begin(), of_replica.end(),
                    [&](auto const& count) { return count.second == replica; });
  }
}

ReceivedRows::ExpertRanks const& ReceivedRows::ranks() const {
  if (!ranks_) ranks_.emplace(plan_);
  return *ranks_;
}

std::vector<int> const& ReceivedRows::last_ranks() const {
  if (!last_ranks_.empty()) return last_ranks_;
  if (!is_forced()) return last_ranks_ = {0};  // all ranks are alike
  last_ranks_ =
      find_last_ranks(plan_, [this](std::vector<int> const& set) { return load_of_set(set); });
  return last_ranks_;
}

std::int64_t ReceivedRows::load_of_set(std::vector<int> const& ranks) const {
  std::int64_t sum = 0;
  visit_layers([&](LayerConfig const& kind, std::int64_t layer, MicrobatchId k) {
    std::int64_t largest = 0;
    for (int const rank : ranks)
      largest = std::max(largest, load_of(rows_of_experts(rank, kind, layer, k)));
    sum += largest;
  });
  return sum;
}

std::vector<std::int64_t> const& ReceivedRows::rows_of_part(std::int32_t counts,
                                                            RankPlace const& place) const {
  auto [at, is_new] = of_parts_.try_emplace({counts, {place.tensor, place.context}});
  if (!is_new) return at->second;
  ForcedCounts const& all = forced_->counts()[static_cast<std::size_t>(counts)];
  at->second.resize(static_cast<std::size_t>(all.experts()));
  std::int64_t const rows = shape_.local_sequence();
  std::int64_t const first = shape_.sequence_parallel ? place.tensor * rows : 0;
  SequencePart const part{
      .rank = place.context, .ranks = shape_.context(), .zigzag = shape_.is_zigzag()};
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t const of_sequence = part.row_of(first + row, shape_.sequence());
    all.add_rows(of_sequence * shape_.micro, shape_.micro, at->second);
  }
  return at->second;
}

std::vector<std::int64_t> const& ReceivedRows::rows_of_group(std::size_t group,
                                                             std::int64_t layer,
                                                             MicrobatchId k) const {
  ExpertGroup const& members = ranks().groups[group];
  std::vector<std::int32_t> numbers;
  for (RankPlace const& place : members.places) {
    numbers.push_back(forced_->number_of(layer, in_batch(config_, place.data, k)));
  }
  auto [at, is_new] = of_groups_.try_emplace({group, std::move(numbers)});
  if (!is_new) return at->second;
  std::vector<std::int32_t> const& of_members = at->first.second;
  for (std::size_t i = 0; i < of_members.size(); ++i) {
    ForcedCounts const& counts = forced_->counts()[static_cast<std::size_t>(of_members[i])];
    at->second.resize(static_cast<std::size_t>(counts.experts()));
    RankPlace const& place = members.places[i];
    if (members.has_whole_replicas) {
      // The ranks of a replica have all of its tokens; one of them stands for them.
      if (place.tensor > 0 || place.context > 0) continue;
      for (std::int64_t e = 0; e < counts.experts(); ++e) {
        at->second[static_cast<std::size_t>(e)] += counts.rows(e);
      }
      continue;
    }
    std::vector<std::int64_t> const& part = rows_of_part(of_members[i], place);
    for (std::size_t e = 0; e < part.size(); ++e) at->second[e] += part[e];
  }
  return at->second;
}

std::int64_t ReceivedRows::of(int rank,
                              LayerConfig const& kind,
                              std::int64_t layer,
                              MicrobatchId k) const {
  std::int64_t const local = kind.experts->count / shape_.expert;
  if (forced_ == nullptr) {
    BlockShape const shape = shape_.with(kind);
    // A token chooses an expert at most once.
    std::int64_t const of_sender =
        shape.capacity > 0
            ? std::min(shape.sent_rows(), local * std::min(shape.expert_rows(), shape.tokens()))
            : shape.tokens() * std::min(kind.experts->per_token, local);
    if (!shape.gathers_choices()) return of_sender * shape.expert;
    std::int64_t replicas = 0;
    for (ExpertGroup const& group : ranks().groups) replicas = std::max(replicas, group.replicas);
    return std::min(of_sender * shape.expert, local * shape.expert_rows() * replicas);
  }
  auto const& [group, member] = ranks().position[static_cast<std::size_t>(rank)];
  std::vector<std::int64_t> const& rows = rows_of_group(group, layer, k);
  std::int64_t sum = 0;
  for (std::int64_t e = member * local; e < (member + 1) * local; ++e) {
    sum += rows[static_cast<std::size_t>(e)];
  }
  return std::max<std::int64_t>(sum, 1);  // tensors are not empty
}

std::int64_t ReceivedRows::computed(int rank,
                                    LayerConfig const& kind,
                                    std::int64_t layer,
                                    MicrobatchId k) const {
  if (forced_ == nullptr) {
    std::optional<GroupId> const& sharers = plan_.roles.expert_tensor;
    return (sharers ? plan_.groups.members(*sharers) : 1) * of(rank, kind, layer, k);
  }
  std::int64_t sum = 0;
  for (int const sharer : ranks().sharers[static_cast<std::size_t>(rank)]) {
    sum += of(sharer, kind, layer, k);
  }
  return sum;
}

std::vector<std::int64_t> ReceivedRows::rows_of_experts(int rank,
                                                        LayerConfig const& kind,
                                                        std::int64_t layer,
                                                        MicrobatchId k) const {
  auto const local = static_cast<std::size_t>(kind.experts->count / shape_.expert);
  std::vector<std::int64_t> sums(local);
  for (int const sharer : ranks().sharers[static_cast<std::size_t>(rank)]) {
    auto const& [group, member] = ranks().position[static_cast<std::size_t>(sharer)];
    std::vector<std::int64_t> const& rows = rows_of_group(group, layer, k);
    for (std::size_t e = 0; e < local; ++e) {
      sums[e] += rows[static_cast<std::size_t>(member) * local + e];
    }
  }
  return sums;
}

ExpertRows ReceivedRows::most(std::span<int const> ranks,
                              LayerConfig const& kind,
                              std::int64_t layer,
                              MicrobatchId k) const {
  std::span<int const> const chosen = ranks.empty() ? last_ranks() : ranks;
  ExpertRows most{.received = 0, .computed = 0, .of_experts = nullptr};
  std::vector<std::int64_t> by_expert;
  std::int64_t largest = -1;
  for (int const rank : chosen) {
    most.received = std::max(most.received, of(rank, kind, layer, k));
    most.computed = std::max(most.computed, computed(rank, kind, layer, k));
    if (forced_ == nullptr) continue;
    std::vector<std::int64_t> rows = rows_of_experts(rank, kind, layer, k);
    std::int64_t const its = load_of(rows);
    if (its > largest) by_expert = std::move(rows);
    largest = std::max(largest, its);
  }
  bool const differ = std::adjacent_find(by_expert.begin(), by_expert.end(),
                                         std::not_equal_to<>{}) != by_expert.end();
  std::int64_t const sum = sum_of(by_expert);
  if (differ || (sum > 0 && sum != most.computed)) {
    most.of_experts = std::make_shared<GroupRows const>(std::move(by_expert));
  }
  return most;
}

void ExpertRows::set_room(BlockShape& shape) const {
  shape.room = received;
  shape.computed_room = computed;
  shape.rows_of_experts = of_experts.get();
}

int ReceivedRows::microbatch_classes() const {
  return depends_on_microbatch() ? static_cast<int>(microbatches(config_)) : 1;
}

ExpertRows ReceivedRows::fewest(int rank, LayerConfig const& kind) const {
  ExpertRows fewest{.received = std::numeric_limits<std::int64_t>::max(),
                    .computed = std::numeric_limits<std::int64_t>::max(),
                    .of_experts = nullptr};
  visit_layers([&](LayerConfig const& of_layer, std::int64_t layer, MicrobatchId k) {
    if (!(of_layer == kind)) return;
    fewest.received = std::min(fewest.received, of(rank, kind, layer, k));
    fewest.computed = std::min(fewest.computed, computed(rank, kind, layer, k));
  });
  return fewest;
}

ExpertRows ReceivedRows::least(int rank, LayerConfig const& kind) const {
  ExpertRows least = fewest(rank, kind);
  if (forced_ == nullptr) return least;
  bool differ = false;
  std::int64_t products = least.computed;
  visit_layers([&](LayerConfig const& of_layer, std::int64_t layer, MicrobatchId k) {
    if (!(of_layer == kind)) return;
    ExpertRows const rows = most({}, kind, layer, k);
    if (rows.of_experts) products = std::min(products, sum_of(*rows.of_experts));
    differ = differ || rows.of_experts;
  });
  if (!differ) return least;
  // Products are of the fewest tiles, and read the fewest weights, if one expert has all rows.
  std::vector<std::int64_t> of_one(static_cast<std::size_t>(kind.experts->count / shape_.expert));
  of_one.front() = products;
  least.of_experts = std::make_shared<GroupRows const>(std::move(of_one));
  return least;
}

int ReceivedRows::fullest_at_least() const {
  if (forced_ == nullptr) return 0;
  int fullest = last_ranks().front();
  std::int64_t most = 0;
  for (int const rank : last_ranks()) {
    std::int64_t sum = 0;
    for (LayerRun const& run : layer_runs(config_.model)) {
      if (run.kind.experts) sum += run.count * fewest(rank, run.kind).computed;
    }
    if (sum > most) fullest = rank;
    most = std::max(most, sum);
  }
  return fullest;
}

std::vector<std::pair<int, int>> ReceivedRows::distinct_ranks() const {
  if (forced_ == nullptr) return {{0, plan_.groups.ranks_per_stage()}};
  std::map<std::vector<std::int64_t>, std::size_t> known;
  std::vector<std::pair<int, int>> distinct;
  for (std::size_t rank = 0; rank < ranks().position.size(); ++rank) {
    std::vector<std::int64_t> rows;
    visit_layers([&](LayerConfig const& kind, std::int64_t layer, MicrobatchId k) {
      rows.push_back(of(static_cast<int>(rank), kind, layer, k));
      rows.push_back(computed(static_cast<int>(rank), kind, layer, k));
    });
    auto const [at, is_new] = known.emplace(std::move(rows), distinct.size());
    if (is_new) {
      distinct.emplace_back(static_cast<int>(rank), 1);
    } else {
      ++distinct[at->second].second;
    }
  }
  return distinct;
}

std::optional<std::pair<int, int>> hottest_and_coldest(ReceivedRows const& rows) {
  if (!rows.is_forced()) return std::nullopt;
  std::vector<int> const& last = rows.last_ranks();
  std::vector<std::int64_t> sums(last.size());
  bool differ = false;
  rows.visit_layers([&](LayerConfig const& kind, std::int64_t layer, MicrobatchId k) {
    std::int64_t const of_first = load_of(rows.rows_of_experts(last.front(), kind, layer, k));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      std::int64_t const its = load_of(rows.rows_of_experts(last[i], kind, layer, k));
      sums[i] += its;
      differ = differ || its != of_first;
    }
  });
  if (!differ) return std::nullopt;
  auto const rank_at = [&](auto const& position) {
    return last[static_cast<std::size_t>(position - sums.begin())];
  };
  return std::pair{rank_at(std::ranges::max_element(sums)),
                   rank_at(std::ranges::min_element(sums))};
}

}  // namespace stagecraft
