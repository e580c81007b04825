#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libsim/search/search_request.hpp"

namespace stagecraft {

/// The divisors of a number, ascending.
std::vector<std::int64_t> divisors(std::int64_t number);

/// The policies that all stages may share if the largest chunk has `chunk_layers` layers: none,
/// selective, `modules` (module_policies()), full in groups of N layers (divisors of a chunk), full
/// of the first K < chunk layers. The filter is not applied, because the other families are
/// composed of these policies.
std::vector<PolicyCode> uniform_policies(std::int64_t chunk_layers,
                                         std::span<PolicyCode const> modules);

/// Those of them that layers which are units may share: each is a checkpoint of its own.
std::vector<PolicyCode> unit_policies(std::int64_t layers, std::span<PolicyCode const> modules);

/// The policy that a code stands for. Pre: not per_stage.
RecomputePolicy policy_of(PolicyCode code);

/// The family of a policy that all stages share. Pre: it stores no microbatches.
RecomputeKind kind_of(RecomputePolicy const& policy);

}  // namespace stagecraft
