#include "libsim/fit/fit_data.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "libsim/engine/prediction.hpp"
#include "libsim/engine/settle.hpp"
#include "libsim/hardware/system_reader.hpp"
#include "libsim/host/worker_pool.hpp"

namespace stagecraft {

namespace {

/// How a fit uses a row.
struct ReadRow {
  enum class Use { fitted, untimed, other, problem };

  Use use = Use::problem;
  std::optional<RunConfig> run;
  std::string other;  ///< the system and the stack of another
  ValidatedRow row;
};

ReadRow read_row(DataFile const& file,
                 std::size_t index,
                 RunVariants const& base,
                 System const& system) {
  DataRow data = file.row(index, base);
  ReadRow read;
  read.row.place = data.place;
  read.row.measured = data.measured;
  read.row.problems = std::move(data.problems);
  if (!data.run) return read;
  bool const is_of_system = data.run->system.name == system.name &&
                            data.run->system.software.name == system.software.name;
  if (!is_of_system || !data.measured.iteration_seconds) {
    read.use = is_of_system ? ReadRow::Use::untimed : ReadRow::Use::other;
    if (!is_of_system) read.other = machine_text(data.run->system);
    return read;
  }
  try {
    SettledConfig const training = settled(data.run->training, data.run->system);
    static_cast<void>(predict(training, data.run->system));
    data.run->training = training.get();
    read.use = ReadRow::Use::fitted;
    read.run = std::move(data.run);
  } catch (std::exception const& error) {
    read.row.problems.push_back(
        {read.row.place, "", "a run that cannot be simulated (" + std::string{error.what()} + ")",
         "one that can"});
  }
  return read;
}

std::size_t index_of(System const& system, std::vector<System>& systems) {
  auto const known = std::find(systems.begin(), systems.end(), system);
  auto const index = static_cast<std::size_t>(known - systems.begin());
  if (known == systems.end()) systems.push_back(system);
  return index;
}

void add(ReadRow read, FitData& data) {
  switch (read.use) {
    case ReadRow::Use::problem:
      data.problems.rows.push_back(std::move(read.row));
      return;
    case ReadRow::Use::untimed:
      ++data.untimed;
      return;
    case ReadRow::Use::other:
      ++data.others;
      ++data.others_by_name[read.other];
      return;
    case ReadRow::Use::fitted:
      break;
  }
  MeasuredValues& measured = read.row.measured;
  data.runs.push_back({.training = std::move(read.run->training),
                       .system = index_of(read.run->system, data.systems),
                       .seconds = *measured.iteration_seconds,
                       .weight = measured.weight,
                       .group = std::move(measured.group)});
}

}  // namespace

int fold_of(std::string_view group) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (char const byte : group) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return static_cast<int>((hash >> 32U) % fold_count);
}

std::string machine_text(System const& system) {
  return "'" + system.name + "' with '" + system.software.name + "'";
}

System system_of(RunVariants const& base) {
  Diagnostics diagnostics;
  YamlNode const* const section = base.base().find("system");
  if (section == nullptr) {
    Problem problem;
    problem.key = "system";
    problem.accepted = "--system S.yaml, or a --base RUN.yaml with one";
    diagnostics.add(std::move(problem));
    diagnostics.throw_if_any();
  }
  System system = read_system(ConfigNode{*section, "system", diagnostics});
  YamlNode const* const software = base.base().find("software");
  if (software != nullptr) {
    system.software = read_software(ConfigNode{*software, "software", diagnostics});
  }
  diagnostics.throw_if_any();
  return system;
}

FitData read_fit_data(std::vector<DataFile> const& files,
                      RunVariants const& base,
                      int jobs,
                      std::function<void(std::int64_t rows)> const& progress) {
  FitData data;
  data.system = system_of(base);
  for (DataFile const& file : files) file.check(base);
  std::mutex counting;
  for (DataFile const& file : files) {
    std::vector<ReadRow> rows(file.rows());
    parallel_for(jobs, file.rows(), [&](std::size_t i) {
      rows[i] = read_row(file, i, base, data.system);
      std::lock_guard const lock{counting};
      progress(++data.rows);
    });
    for (ReadRow& row : rows) add(std::move(row), data);
  }
  return data;
}

}  // namespace stagecraft
