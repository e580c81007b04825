#include "libsim/hardware/collective_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view accepted_shapes =
    "all_reduce, all_gather or reduce_scatter, a space, and NODESxRANKS_PER_NODE, such as "
    "all_reduce 2x8";

std::optional<CollectiveShape> shape_of(std::string_view text) {
  std::size_t const space = text.find(' ');
  std::size_t const cross = text.find('x', space);
  if (space == std::string_view::npos || cross == std::string_view::npos) return std::nullopt;
  auto const nodes = parse_number<int>(text.substr(space + 1, cross - space - 1));
  auto const per_node = parse_number<int>(text.substr(cross + 1));
  if (!nodes || !per_node || *nodes < 1 || *per_node < 1) return std::nullopt;
  if (*nodes > 1'000'000 || *per_node > 1'000 || (*nodes == 1 && *per_node == 1)) {
    return std::nullopt;
  }
  for (OpKind const kind : {OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter}) {
    if (text.substr(0, space) == name_of(kind)) return CollectiveShape{kind, *nodes, *per_node};
  }
  return std::nullopt;
}

/// Reads the columns of a file into tables, and collects its problems. Between two rows, every
/// table ascends by size, unless a problem says otherwise.
class TableReader {
 public:
  explicit TableReader(CsvTable const& csv) : csv_{csv} {}

  CollectiveTables read() {
    read_header();
    diagnostics_.throw_if_any();
    for (std::size_t row = 0; row < csv_.rows(); ++row) read_row(csv_.row(row));
    for (std::size_t column = 1; column < tables_.size(); ++column) {
      if (tables_[column].size() < 2) {
        report(csv_.header()[column], std::to_string(tables_[column].size()) + " times",
               "at least two times of each shape");
      }
    }
    diagnostics_.throw_if_any();
    CollectiveTables result;
    for (std::size_t column = 1; column < tables_.size(); ++column) {
      result.emplace(shapes_[column], std::move(tables_[column]));
    }
    return result;
  }

 private:
  void report(CsvCell const& cell, std::string found, std::string accepted) {
    diagnostics_.add({.place = csv_.place_of(cell),
                      .key = "",
                      .found = std::move(found),
                      .accepted = std::move(accepted),
                      .stands_alone = true});
  }
  void report(CsvCell const& cell, std::string_view accepted) {
    report(cell, "'" + printable(cell.text) + "'", std::string{accepted});
  }

  void read_header() {
    std::vector<CsvCell> const& header = csv_.header();
    shapes_.resize(header.size());
    tables_.resize(header.size());
    if (header.front().text != "bytes") report(header.front(), "bytes, in the first column");
    if (header.size() < 2) report(header.front(), "no shape", accepted_shapes.data());
    std::set<CollectiveShape> known;
    for (std::size_t column = 1; column < header.size(); ++column) {
      auto const shape = shape_of(header[column].text);
      if (!shape) {
        report(header[column], accepted_shapes);
        continue;
      }
      if (!known.insert(*shape).second) report(header[column], "each shape once");
      shapes_[column] = *shape;
    }
  }

  void read_row(std::vector<CsvCell> const& cells) {
    auto const size = parse_number<std::int64_t>(cells.front().text);
    if (!size || *size < 1) {
      report(cells.front(), "a number of bytes, 1 or more");
      return;
    }
    if (*size <= last_size_) report(cells.front(), "a size above that of the row before");
    last_size_ = *size;
    for (std::size_t column = 1; column < cells.size(); ++column) {
      if (cells[column].text.empty()) continue;
      auto const time = parse_number<double>(cells[column].text);
      if (!time || *time <= 0 || *time > 1e12) {
        report(cells[column], "microseconds, more than 0, or nothing");
        continue;
      }
      tables_[column].push_back({Bytes{*size}, Seconds{*time / 1e6}});
    }
  }

  CsvTable const& csv_;
  Diagnostics diagnostics_;
  std::vector<CollectiveShape> shapes_;
  std::vector<std::vector<CollectivePoint>> tables_;
  std::int64_t last_size_ = 0;
};

std::string microseconds_text(Seconds time) { return fmt::format("{:.9g}", time.value * 1e6); }

}  // namespace

CollectiveTables read_collective_tables(CsvTable const& csv) { return TableReader{csv}.read(); }

std::string to_csv(CollectiveTables const& tables) {
  std::map<std::int64_t, std::map<CollectiveShape, Seconds>> rows;
  std::string text = "bytes";
  for (auto const& [shape, points] : tables) {
    text += ',' + std::string{name_of(shape.kind)} + ' ' + std::to_string(shape.nodes) + 'x' +
            std::to_string(shape.per_node);
    for (CollectivePoint const& point : points) rows[point.size.count()][shape] = point.duration;
  }
  text += '\n';
  for (auto const& [bytes, times] : rows) {
    text += std::to_string(bytes);
    for (auto const& table : tables) {
      auto const time = times.find(table.first);
      text += time == times.end() ? "," : ',' + microseconds_text(time->second);
    }
    text += '\n';
  }
  return text;
}

double interpolate(std::vector<CollectivePoint> const& table, double bytes) {
  auto const size = [&](std::size_t i) { return static_cast<double>(table[i].size.count()); };
  auto const time = [&](std::size_t i) { return table[i].duration.value; };
  auto const first_from = [&](double wanted) {
    auto const found =
        std::partition_point(table.begin(), table.end(), [&](CollectivePoint const& point) {
          return static_cast<double>(point.size.count()) < wanted;
        });
    return static_cast<std::size_t>(found - table.begin());
  };
  auto const along = [&](std::size_t lower, std::size_t upper) {
    double const slope = (time(upper) - time(lower)) / (size(upper) - size(lower));
    return time(upper) + slope * (bytes - size(upper));
  };
  std::size_t const upper = first_from(bytes);
  if (upper == 0 || table.size() == 1) return time(0);
  if (upper < table.size()) return along(upper - 1, upper);
  // Neighbours in a dense table differ by noise: the slope is that of the upper half of sizes.
  std::size_t const last = table.size() - 1;
  std::size_t const half = first_from(size(last) / 2);
  bool const is_at_half = half < last && size(half) <= size(last) / 2;
  return std::max(time(last), along(is_at_half ? half : std::max<std::size_t>(half, 1) - 1, last));
}

}  // namespace stagecraft
