#include "libsim/sweep/sweep_table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "libsim/config/csv_field.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/host/file_error.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/host/program_version.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/sweep/key_columns.hpp"
#include "libsim/sweep/node_text.hpp"
#include "libsim/units/parse_number.hpp"
#include "libsim/units/split_text.hpp"

namespace stagecraft {
namespace {

std::vector<std::string> const attribute_names{
    "program_version", "sweep", "base", "fingerprint", "axes", "points", "shard"};

/// The names of the axes, one per line.
std::string axes_text(std::vector<SweepAxis> const& axes) {
  std::string text;
  for (SweepAxis const& axis : axes) text += axis.name + '\n';
  return text;
}

/// The same column with its rows in another order.
NamedColumn reordered(NamedColumn column, std::vector<std::size_t> const& order) {
  std::visit(
      [&](auto& values) {
        std::remove_reference_t<decltype(values)> sorted;
        sorted.reserve(values.size());
        for (std::size_t const row : order) sorted.push_back(std::move(values[row]));
        values = std::move(sorted);
      },
      column.values);
  return column;
}

/// The numbers of the rows by ascending point.
std::vector<std::size_t> order_of(std::vector<std::int64_t> const& points) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return points[a] < points[b]; });
  return order;
}

Shard shard_of(ColumnFile const& table, std::string const& file) {
  std::string const text = table.attribute("shard");
  std::vector<std::string_view> const parts = split_text(text, "/");
  auto const number = parse_number<int>(parts.front());
  auto const count = parse_number<int>(parts.back());
  bool const is_sound = parts.size() == 2 && number && count && *number >= 1 && *number <= *count &&
                        *count <= 1'000'000;
  if (!is_sound) {
    throw InputError{file + ": attribute shard: found '" + printable(text) +
                     "'; accepted: such as 2/8"};
  }
  return {*number, *count};
}

/// The shards to be merged, by number.
using Parts = std::map<int, std::pair<std::string, ColumnFile>>;

void refuse_foreign(std::string const& file, ColumnFile const& table, Parts const& parts) {
  if (parts.empty()) return;
  auto const& [first_file, first] = parts.begin()->second;
  for (auto const& [name, text] : table.attributes) {
    if (name == "shard" || text == first.attribute(name)) continue;
    throw InputError{
        file + ": " +
        (name == "program_version"
             ? "found rows of program version '" + printable(text) + "'; accepted: '" +
                   first.attribute(name) + "', that of " + first_file
             : "found rows of another sweep; accepted: those of the sweep of " + first_file)};
  }
  bool const is_alike = std::equal(
      table.columns.begin(), table.columns.end(), first.columns.begin(), first.columns.end(),
      [](NamedColumn const& a, NamedColumn const& b) {
        return a.name == b.name && a.unit == b.unit && a.values.index() == b.values.index();
      });
  if (!is_alike) throw InputError{file + ": its columns are not those of " + first_file};
}

void append(NamedColumn& column, NamedColumn& next) {
  std::visit(
      [&](auto& values) {
        auto& more = std::get<std::remove_reference_t<decltype(values)>>(next.values);
        values.insert(values.end(), std::make_move_iterator(more.begin()),
                      std::make_move_iterator(more.end()));
      },
      column.values);
}

std::string csv_cell(NamedColumn const& column, std::size_t row) {
  char digits[32];
  auto const in_digits = [&](auto number) {
    return std::string{digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
  };
  if (auto const* const numbers = std::get_if<std::vector<std::int64_t>>(&column.values)) {
    return in_digits((*numbers)[row]);
  }
  if (auto const* const reals = std::get_if<std::vector<double>>(&column.values)) {
    double const number = (*reals)[row];
    if (std::isnan(number)) return {};
    return is_integer_column(column.name) ? in_digits(static_cast<std::int64_t>(number))
                                          : in_digits(number);
  }
  return csv_field(std::get<std::vector<std::string>>(column.values)[row]);
}

/// Whole numbers as real ones, so that those that do not apply are not numbers to any reader.
std::vector<double> with_gaps(std::vector<std::int64_t> const& numbers) {
  std::vector<double> reals;
  reals.reserve(numbers.size());
  for (std::int64_t const number : numbers) {
    reals.push_back(number == no_integer ? no_real() : static_cast<double>(number));
  }
  return reals;
}

}  // namespace

ColumnFile table_of(Sweep const& sweep, Shard shard, SweepJournal const& journal) {
  std::vector<std::int64_t> points;
  std::vector<std::int64_t> valid;
  std::vector<std::string> messages;
  std::vector<std::string> plans;
  std::vector<std::vector<std::int64_t>> integers(integer_columns().size());
  std::vector<std::vector<double>> reals(real_columns().size());
  journal.for_each([&](SweepRow&& row) {
    points.push_back(row.point);
    valid.push_back(row.is_valid ? 1 : 0);
    messages.push_back(std::move(row.message));
    plans.push_back(std::move(row.plan));
    for (std::size_t i = 0; i < integers.size(); ++i) integers[i].push_back(row.integers[i]);
    for (std::size_t i = 0; i < reals.size(); ++i) reals[i].push_back(row.reals[i]);
  });

  ColumnFile table;
  table.schema = sweep_schema;
  table.attributes = {{"program_version", program_version()},
                      {"sweep", sweep.text},
                      {"base", exact_text(sweep.runs.base())},
                      {"fingerprint", sweep.fingerprint},
                      {"axes", axes_text(sweep.axes)},
                      {"points", std::to_string(sweep.points)},
                      {"shard", shard.text()}};
  std::vector<std::size_t> const order = order_of(points);
  auto const add = [&](std::string_view name, std::string_view unit, ColumnValues values) {
    table.columns.push_back(
        reordered({std::string{name}, std::string{unit}, std::move(values)}, order));
  };
  std::vector<NamedColumn> keys = key_columns(sweep, points);
  add(index_column, "", std::move(points));
  for (NamedColumn& column : keys) table.columns.push_back(reordered(std::move(column), order));
  add(valid_column, "", std::move(valid));
  add(message_column, "", std::move(messages));
  for (std::size_t i = 0; i < reals.size(); ++i) {
    add(real_columns()[i].name, real_columns()[i].unit, std::move(reals[i]));
  }
  for (std::size_t i = 0; i < integers.size(); ++i) {
    add(integer_columns()[i].name, integer_columns()[i].unit, with_gaps(integers[i]));
  }
  add(plan_column, "", std::move(plans));
  return table;
}

ColumnFile read_sweep_table(std::filesystem::path const& path) {
  ColumnFile table = read_column_file(path, std::string{sweep_schema}, attribute_names);
  bool const has_index =
      !table.columns.empty() && table.columns.front().name == index_column &&
      std::holds_alternative<std::vector<std::int64_t>>(table.columns.front().values);
  if (!has_index) throw InputError{path.string() + ": its first column is not index"};
  return table;
}

ColumnFile merge_shards(std::vector<std::filesystem::path> const& paths) {
  Parts parts;
  std::optional<int> count;
  for (std::filesystem::path const& path : paths) {
    std::string const file = path.string();
    ColumnFile table = read_sweep_table(path);
    Shard const shard = shard_of(table, file);
    refuse_foreign(file, table, parts);
    if (count && shard.count != *count) {
      throw InputError{file + ": found shard " + shard.text() + "; accepted: one of " +
                       std::to_string(*count) + ", as " + parts.begin()->second.first + " is"};
    }
    count = shard.count;
    auto const [there, is_new] = parts.try_emplace(shard.number, file, std::move(table));
    if (!is_new) {
      throw InputError{file + ": found shard " + shard.text() + " again; accepted: each once (" +
                       there->second.first + " is the same)"};
    }
  }
  std::string missing;
  for (int number = 1; number <= count.value_or(0); ++number) {
    if (parts.count(number) == 0) {
      missing += (missing.empty() ? "" : ", ") + Shard{number, *count}.text();
    }
  }
  if (!missing.empty()) {
    throw InputError{"found no file for the shards " + missing + "; accepted: all of them"};
  }

  ColumnFile merged = std::move(parts.begin()->second.second);
  parts.erase(parts.begin());
  for (auto& [number, part] : parts) {
    for (std::size_t i = 0; i < merged.columns.size(); ++i) {
      append(merged.columns[i], part.second.columns[i]);
    }
  }
  for (auto& [name, text] : merged.attributes) {
    if (name == "shard") text = Shard{}.text();
  }
  std::vector<std::size_t> const order =
      order_of(std::get<std::vector<std::int64_t>>(merged.columns.front().values));
  for (NamedColumn& column : merged.columns) column = reordered(std::move(column), order);
  return merged;
}

void write_csv(ColumnFile const& table, std::filesystem::path const& path) {
  OutputFile file{path};
  std::string line;
  for (NamedColumn const& column : table.columns) {
    line += (line.empty() ? "" : ",") + csv_field(column.name);
  }
  file.write(line + '\n');
  for (std::size_t row = 0; row < table.columns.front().rows(); ++row) {
    line.clear();
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      if (i > 0) line += ',';
      line += csv_cell(table.columns[i], row);
    }
    file.write(line + '\n');
  }
  file.finish();
}

void write_sweep_table(ColumnFile const& table,
                       std::filesystem::path const& path,
                       std::filesystem::path const& csv) {
  OutputFile results{path};
  results.write(column_file_image(table, path));
  if (!csv.empty()) write_csv(table, csv);
  results.finish();
}

}  // namespace stagecraft
