#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace stagecraft {

/// Whole numbers, real numbers or texts, one per row.
using ColumnValues =
    std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>>;

}  // namespace stagecraft
