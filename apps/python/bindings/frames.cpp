#include "apps/python/bindings/frames.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "apps/python/bindings/interruptible.hpp"
#include "apps/python/bindings/text_caster.hpp"
#include "apps/stagecraft/command_results.hpp"
#include "apps/stagecraft/commands.hpp"
#include "libsim/sweep/sweep_check.hpp"
#include "libsim/sweep/sweep_reader.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft::python {

namespace nb = nanobind;

namespace {

/// The numbers as an array of numpy, which takes them over without a copy.
template <typename Number>
nanobind::object numpy_array(std::vector<Number> numbers) {
  auto owned = std::make_unique<std::vector<Number>>(std::move(numbers));
  Number* const data = owned->data();
  std::size_t const size = owned->size();
  nanobind::capsule const owner{owned.release(), [](void* vector) noexcept {
                                  delete static_cast<std::vector<Number>*>(vector);
                                }};
  return nanobind::cast(
      nanobind::ndarray<nanobind::numpy, Number, nanobind::ndim<1>>{data, {size}, owner});
}

nb::object column_object(ColumnValues values) {
  return std::visit(
      [](auto& column) -> nb::object {
        using Column = std::decay_t<decltype(column)>;
        if constexpr (std::is_same_v<Column, std::vector<std::string>>) {
          return nb::cast(column);
        } else {
          return numpy_array(std::move(column));
        }
      },
      values);
}

nb::dict names_dict(TraceNames const& names) {
  nb::dict result;
  result["op"] = nb::cast(names.op);
  result["phase"] = nb::cast(names.phase);
  result["stream"] = nb::cast(names.stream);
  return result;
}

}  // namespace

nb::dict sweep_frame(std::string const& path,
                     std::optional<std::string> const& text,
                     std::vector<std::string> const& words,
                     nb::object const& progress) {
  Command const command = sweep_command();
  SweepOptions const options = read_sweep_options(CommandLine{command, words});
  SweepOutcome outcome;
  std::vector<std::string> warnings;
  run_interruptibly(progress, [&](Work& work) {
    Sweep const sweep = text ? parse_sweep(*text, path) : load_sweep(path);
    warnings = check_sweep(sweep);
    outcome = sweep_as_asked(
        sweep, options, [&](char const* part, double share, double) { work.report(part, share); });
  });
  for (std::string& line : warning_lines(outcome)) warnings.push_back(std::move(line));
  nb::dict result;
  result["document"] = to_json(outcome, options.rank).dump();
  result["warnings"] = nb::cast(warnings);
  nb::list columns;
  for (NamedColumn& column : outcome.table.columns) {
    columns.append(
        nb::make_tuple(column.name, column.unit, column_object(std::move(column.values))));
  }
  result["columns"] = columns;
  return result;
}

nb::dict trace_frames(std::string const& path) {
  TraceReader const reader{std::filesystem::path{path}};
  nb::dict meta;
  TraceMeta const& from = reader.meta();
  meta["program_version"] = from.program_version;
  meta["command_line"] = from.command_line;
  meta["config"] = from.config;
  meta["plan"] = from.plan;
  meta["device"] = from.device;
  meta["clock"] = std::string{name_of(from.clock)};
  nb::list ranks;
  for (std::int32_t const number : reader.ranks()) {
    RankTrace rank = reader.read(number);
    nb::dict ops;
    for (OpColumn const& column : op_columns) {
      ops[nb::str(column.name.data(), column.name.size())] =
          numpy_array(std::move(rank.ops.*column.column));
    }
    nb::dict memory;
    memory["time"] = numpy_array(std::move(rank.memory.time));
    for (auto const& [category, name] : EnumNames<Category>::all) {
      memory[nb::str(name.data(), name.size())] = numpy_array(std::move(rank.memory.of(category)));
    }
    ranks.append(nb::make_tuple(rank.rank, rank.stage, ops, memory));
  }
  nb::dict result;
  result["meta"] = meta;
  result["names"] = names_dict(reader.names());
  result["ranks"] = ranks;
  return result;
}

}  // namespace stagecraft::python
