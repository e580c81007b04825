#pragma once

#include <compare>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/csv_table.hpp"
#include "libsim/program/op_kind.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// One measured point of a collective: payload of the whole (unsharded) tensor and its duration.
struct CollectivePoint {
  Bytes size;
  Seconds duration;

  friend bool operator==(CollectivePoint const&, CollectivePoint const&) = default;
};

/// Which collective was measured, and where its ranks were.
struct CollectiveShape {
  OpKind kind = OpKind::all_reduce;
  int nodes = 1;
  int per_node = 1;  ///< ranks on each node

  int ranks() const { return nodes * per_node; }
  friend auto operator<=>(CollectiveShape const&, CollectiveShape const&) = default;
};

/// Measured times of collectives, by shape; of each, at least two points of ascending size.
using CollectiveTables = std::map<CollectiveShape, std::vector<CollectivePoint>>;

/// The tables that a system names. Copies share them.
struct MeasuredCollectives {
  std::string file;  ///< as it is found from any folder; empty: none
  std::shared_ptr<CollectiveTables const> tables;

  friend bool operator==(MeasuredCollectives const& a, MeasuredCollectives const& b) {
    return a.file == b.file &&
           (a.tables == b.tables || (a.tables && b.tables && *a.tables == *b.tables));
  }
};

/// Reads tables from a CSV file: a column `bytes`, of whole tensors, in ascending order, and a column
/// for each shape, such as `all_reduce 2x8` for 2 nodes of 8 ranks, in microseconds. A cell may be
/// empty where a shape was not measured.
/// \throws ConfigError  with all problems, each with its place.
CollectiveTables read_collective_tables(CsvTable const& csv);

/// The same tables as the text of such a file.
std::string to_csv(CollectiveTables const& tables);

/// Time at a size: linear between the points, constant below the first, beyond the last with the
/// slope from half of its size to it. Pre: at least one point.
double interpolate(std::vector<CollectivePoint> const& table, double bytes);

}  // namespace stagecraft
