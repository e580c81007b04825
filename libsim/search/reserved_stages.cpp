#include "libsim/search/reserved_stages.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "libsim/host/sha256.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/training/training_config_reader.hpp"

namespace stagecraft {
namespace {

/// A digest of all that decides what a stage reserves: the run with the stage's policy alone, what
/// the policies of the others decide about the plan's tasks, and how far the host gets ahead.
std::string digest_of(TrainingConfig const& config, StageId stage, int rank, double host_gain) {
  auto const some = [&](auto const& has) {
    return std::ranges::any_of(config.recompute, has) ? 'y' : 'n';
  };
  std::string key = std::to_string(stage.value()) + ' ' + std::to_string(rank) + ' ' +
                    std::to_string(std::bit_cast<std::uint64_t>(host_gain)) + ' ';
  key += some([](auto const& policy) { return policy.granularity == RecomputeGranularity::full; });
  key += some([](auto const& policy) { return policy.store_microbatches.count > 0; });
  key += some([](auto const& policy) { return policy.early != EarlyRecompute::no; });
  TrainingConfig own = config;
  own.recompute = {policy_of(config, stage)};
  nlohmann::ordered_json json = to_json(own);
  json.erase("model");
  Sha256 digest;
  digest.add(key);
  digest.add(json.dump());
  return digest.hexadecimal();
}

}  // namespace

ReservedStage ReservedStages::reserve(StageAllocators const& allocators,
                                      SettledConfig const& config,
                                      StageId stage,
                                      int rank) {
  std::string key = digest_of(config.get(), stage, rank, allocators.host_gain());
  {
    std::scoped_lock const lock{mutex_};
    if (auto const found = known_.find(key); found != known_.end()) return found->second;
  }
  ReservedStage const reserved = allocators.reserve(stage, rank);
  std::scoped_lock const lock{mutex_};
  return known_.try_emplace(std::move(key), reserved).first->second;
}

}  // namespace stagecraft
