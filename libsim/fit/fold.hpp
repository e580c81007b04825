#pragma once

#include <string_view>

namespace stagecraft {

/// The number of parts into which a cross-validation divides groups.
inline constexpr int fold_count = 5;

/// The fold of a group, 0 to fold_count - 1: the upper half of the 64-bit FNV-1a hash of its name,
/// modulo fold_count. It depends on nothing else, so that a group stays where it is when others are
/// added.
/// Source: Fowler, Noll and Vo, RFC 9923.
int fold_of(std::string_view group);

}  // namespace stagecraft
