#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "libsim/search/chunk_contents.hpp"
#include "libsim/search/search_request.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// What a stage holds and does apart from its microbatches.
struct StageFacts {
  Bytes resident;    ///< parameters, gradients and optimizer state
  SimTime begin{0};  ///< before the first microbatch
  SimTime end{0};    ///< after the last, without waiting for other stages
};

/// The facts of an arrangement's stages, by stage, from the step programs that its plan has.
std::vector<StageFacts> make_stage_facts(SearchRequest const& request,
                                         LayerKinds const& kinds,
                                         Arrangement const& arrangement,
                                         Sharding sharding);

/// Keeps facts that schedules, microbatch sizes and policies share. Threads may share it too.
class StageFactsCache {
 public:
  /// `request` must outlive this object.
  explicit StageFactsCache(SearchRequest const& request)
      : request_{request}, kinds_{request.base.model} {}
  std::shared_ptr<std::vector<StageFacts> const> of(Arrangement const& arrangement,
                                                    Sharding sharding);

 private:
  using Key = std::array<std::int64_t, 12>;
  SearchRequest const& request_;
  LayerKinds kinds_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<std::vector<StageFacts> const>> known_;
};

}  // namespace stagecraft
