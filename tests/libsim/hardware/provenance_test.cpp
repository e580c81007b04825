#include "libsim/hardware/provenance.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "libsim/hardware/system_reader.hpp"

namespace stagecraft {
namespace {

std::vector<ConstantRow> rows_of(std::string const& name) {
  Diagnostics diagnostics;
  std::string const file =
      std::string{STAGECRAFT_SOURCE_DIR} + "/configs/systems/" + name + ".yaml";
  auto const root = parse_yaml_file(file, Place{}, "", diagnostics);
  System const system = read_system(ConfigNode{*root, "", diagnostics});
  diagnostics.throw_if_any();
  return list_constants(system);
}

ConstantRow row(std::vector<ConstantRow> const& rows, std::string const& key) {
  auto const found =
      std::find_if(rows.begin(), rows.end(), [&](ConstantRow const& r) { return r.key == key; });
  REQUIRE(found != rows.end());
  return *found;
}

TEST_CASE("every constant is listed with its value, unit and source", "[hardware]") {
  auto const rows = rows_of("selene-a100");
  // 4 peaks, 3 more of the accelerator; 1 count, 3 tables with their ranks, a latency and a
  // bandwidth; 3 of the network; 13 of the calibration.
  REQUIRE(rows.size() == 4 + 3 + 1 + 6 + 2 + 3 + 13);
  REQUIRE(row(rows, "accelerator.peak.fp16").value == "312");
  REQUIRE(row(rows, "accelerator.peak.fp16").unit == "TFLOP/s");
  REQUIRE(row(rows, "accelerator.multiprocessors").unit.empty());
  REQUIRE(row(rows, "node.p2p.bandwidth").value == "300");
  REQUIRE(row(rows, "node.all_reduce.table").value.find("1 MiB in 92.8 us, 4 MiB in 95.8 us") == 0);
  REQUIRE(row(rows, "calibration.kernel_launch").unit == "us");
  for (ConstantRow const& r : rows) REQUIRE_FALSE(r.source.empty());
}

TEST_CASE("at most two constants of selene-a100 are fitted on the paper's table 4", "[hardware]") {
  auto const rows = rows_of("selene-a100");
  REQUIRE(std::count_if(rows.begin(), rows.end(), [](ConstantRow const& r) {
            return r.fitted.find("table 4") != std::string::npos;
          }) <= 2);
  REQUIRE(std::none_of(rows.begin(), rows.end(), [](ConstantRow const& r) {
    return r.fitted.find("table 5") != std::string::npos;
  }));
}

TEST_CASE("only a system of guesses is said to be one, not a validated or a measured one",
          "[hardware]") {
  System system;
  system.name = "x";
  REQUIRE(validation_warning(system).value().find("system 'x' is not validated: ") == 0);
  system.measured.emplace();  // as `stagecraft-exec calibrate` leaves it
  REQUIRE_FALSE(validation_warning(system).has_value());
  system.measured.reset();
  system.validated = true;
  REQUIRE_FALSE(validation_warning(system).has_value());
}

TEST_CASE("the sources of systems that nobody measured say so", "[hardware]") {
  std::string const name = GENERATE("dgx-h100", "h200");
  for (ConstantRow const& r : rows_of(name)) {
    CAPTURE(r.key);
    bool const says_so = r.source.find("ot validated") != std::string::npos;
    REQUIRE((says_so || r.key == "node.accelerators"));
  }
}

TEST_CASE("what a calibration assumed is found by its source", "[hardware]") {
  System system;
  system.node.p2p.source = "stagecraft-exec calibrate";
  system.node.all_reduce.source = std::string{assumed_source} + "h200: a data sheet";
  system.calibration.network_slowdown.source = std::string{assumed_source} + "h200: a guess";
  REQUIRE(assumed_constants(system) ==
          std::vector<std::string>{"node.all_reduce", "calibration.network_slowdown"});
}

}  // namespace
}  // namespace stagecraft
