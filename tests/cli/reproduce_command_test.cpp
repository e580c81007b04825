#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::reproduce_command_test {

namespace {

using nlohmann::json;

constexpr double gib = 1 << 30;

double predicted(json const& rows,
                 std::string const& model,
                 std::string const& case_name,
                 std::string const& quantity) {
  for (json const& row : rows) {
    if (row.at("model") == model && row.at("case") == case_name && row.at("quantity") == quantity) {
      return row.at("predicted").get<double>();
    }
  }
  FAIL("no row " << model << ' ' << case_name << ' ' << quantity);
  return 0;
}

}  // namespace

TEST_CASE("reproduce table2 is within 1 % of the paper's closed forms in each of its rows") {
  json const result = json_of("reproduce table2 --json");
  REQUIRE(keys_of(result) == std::vector<std::string>{"errors", "schema", "table2"});
  REQUIRE(result.at("errors").at("table2").at("max_percent").get<double>() < 1);
  struct Model {
    std::string name;
    double a, h, b;
  };
  // Korthikanti et al. 2022, tables 2 and 3.
  for (auto const& [name, a, h, b] : {Model{"22B", 64, 6144, 4}, Model{"175B", 96, 12288, 1},
                                      Model{"530B", 128, 20480, 1}, Model{"1T", 160, 25600, 1}}) {
    double const sbh = 2048 * b * h;
    double const scores = 5 * a * 2048 / h;
    for (auto const& [case_name, bytes] :
         std::map<std::string, double>{{"no_parallelism", sbh * (34 + scores)},
                                       {"baseline", sbh * (10 + 24.0 / 8 + scores / 8)},
                                       {"sequence", sbh * (34.0 / 8 + scores / 8)},
                                       {"selective", sbh * (10 + 24.0 / 8)},
                                       {"selective_sequence", sbh * 34 / 8},
                                       {"full", 2 * sbh}}) {
      CAPTURE(name, case_name);
      REQUIRE(predicted(result.at("table2"), name, case_name, "saved_bytes") ==
              Approx(bytes).epsilon(0.01));
    }
  }
}

TEST_CASE("reproduce table4 puts its five cases in the paper's order") {
  json const result = json_of("reproduce table4 --json");
  json const& rows = result.at("table4");
  REQUIRE(rows.size() == 10);
  auto const forward = [&](char const* name) {
    return predicted(rows, "22B", name, "forward_seconds");
  };
  auto const backward = [&](char const* name) {
    return predicted(rows, "22B", name, "backward_seconds");
  };
  auto const sum = [&](char const* name) { return forward(name) + backward(name); };
  // Korthikanti et al. 2022, table 4: 19.0, 19.6, 20.3, 20.9, 27.2 ms.
  REQUIRE(sum("sequence") < sum("baseline"));
  REQUIRE(sum("baseline") < sum("selective_sequence"));
  REQUIRE(sum("selective_sequence") < sum("selective"));
  REQUIRE(sum("selective") < sum("full"));
  REQUIRE(forward("sequence") < forward("baseline"));
  REQUIRE(backward("sequence") < backward("baseline"));
  // Recompute costs backward time only; a whole forward costs more than the third that FLOPs say.
  REQUIRE(forward("full") == forward("baseline"));
  REQUIRE(forward("selective") == forward("baseline"));
  REQUIRE(sum("full") / sum("baseline") > 4.0 / 3);
}

TEST_CASE("reproduce table5 is within 5 % of the paper on average and 10 % at most") {
  json const result = json_of("reproduce table5 --json");
  // Korthikanti et al. 2022, table 5: seconds.
  std::map<std::string, std::pair<double, double>> const published{{"22B", {1.42, 1.10}},
                                                                   {"175B", {18.13, 13.75}},
                                                                   {"530B", {49.05, 37.83}},
                                                                   {"1T", {94.42, 71.49}}};
  double mean = 0;
  for (auto const& [model, seconds] : published) {
    for (auto const& [case_name, expected] :
         {std::pair{"full", seconds.first}, std::pair{"present", seconds.second}}) {
      CAPTURE(model, case_name);
      double const value = predicted(result.at("table5"), model, case_name, "iteration_seconds");
      REQUIRE(value == Approx(expected).epsilon(0.10));
      mean += 100 * std::abs(value / expected - 1) / 8;
    }
  }
  REQUIRE(mean <= 5);
  REQUIRE(result.at("errors").at("table5").at("mean_percent").get<double>() == Approx(mean));
}

TEST_CASE("reproduce headline is within 2 points of 42.1 % and 54.2 % MFU") {
  json const rows = json_of("reproduce headline --json").at("headline");
  REQUIRE(predicted(rows, "530B", "full", "mfu") == Approx(0.421).margin(0.02));
  REQUIRE(predicted(rows, "530B", "present", "mfu") == Approx(0.542).margin(0.02));
}

TEST_CASE("reproduce figure1 and figure7 are within 1 % of their published values") {
  json const result = json_of("reproduce figure1 figure7 --json");
  struct Figure {
    std::string name;
    std::string quantity;
    std::string case_name;
    std::vector<double> published;  // 22B, 175B, 530B, 1T; Korthikanti et al. 2022
    double unit;
  };
  for (Figure const& figure :
       {Figure{"figure1", "bytes", "parameters_and_optimizer", {46.26, 45.74, 31.71, 33.00}, gib},
        Figure{"figure1", "bytes", "activations_baseline", {59.25, 66.84, 114.02, 131.25}, gib},
        Figure{"figure1", "bytes", "activations_present", {9.56, 12.35, 23.08, 26.56}, gib},
        Figure{"figure7", "percent", "sequence", {66.77, 61.96, 58.33, 58.33}, 1},
        Figure{"figure7", "percent", "selective", {49.37, 56.52, 61.90, 61.90}, 1},
        Figure{"figure7", "percent", "selective_sequence", {16.14, 18.48, 20.24, 20.24}, 1},
        Figure{"figure7", "percent", "full", {7.59, 8.70, 9.52, 9.52}, 1}}) {
    std::vector<std::string> const models{"22B", "175B", "530B", "1T"};
    for (std::size_t i = 0; i < models.size(); ++i) {
      CAPTURE(figure.name, figure.case_name, models[i]);
      REQUIRE(predicted(result.at(figure.name), models[i], figure.case_name, figure.quantity) ==
              Approx(figure.published[i] * figure.unit).epsilon(0.01));
    }
  }
}

TEST_CASE("reproduce figure9 has every stage, and meets every point that can be read off") {
  json const rows = json_of("reproduce figure9 --json").at("figure9");
  REQUIRE(rows.size() == 2 * 35);
  // Korthikanti et al. 2022, figure 9, GiB; read off the figure.
  std::map<std::string, std::map<int, double>> const read_off{
      {"deallocated",
       {{0, 10.8}, {1, 9.09}, {8, 7.42}, {16, 5.51}, {24, 3.60}, {33, 1.46}, {34, 1.22}}},
      {"kept", {{0, 13.5}, {1, 11.74}, {8, 9.51}, {16, 6.98}, {24, 4.46}, {33, 1.61}, {34, 1.22}}}};
  int points = 0;
  for (json const& row : rows) {
    int const stage = row.at("stage");
    CAPTURE(row);
    auto const& curve = read_off.at(row.at("case"));
    auto const point = curve.find(stage);
    REQUIRE(row.at("published").is_null() == (point == curve.end()));
    REQUIRE(row.at("error_percent").is_null() == row.at("published").is_null());
    if (point == curve.end()) continue;
    ++points;
    REQUIRE(row.at("predicted").get<double>() / gib ==
            Approx(point->second).margin(stage == 0 ? 0.15 : 0.05));
  }
  REQUIRE(points == 14);
}

TEST_CASE("reproduce all --json has every table and figure, its errors being those of its rows") {
  json const result = json_of("reproduce all --json");
  for (char const* name : {"table2", "table4", "table5", "headline", "figure1", "figure7",
                           "figure8", "figure9", "appendix-c"}) {
    CAPTURE(name);
    REQUIRE(result.contains(name));
    REQUIRE_FALSE(result.at(name).empty());
    double sum = 0;
    double most = 0;
    int count = 0;
    for (json const& row : result.at(name)) {
      CAPTURE(row);
      REQUIRE(row.at("model").is_string());
      REQUIRE(row.at("case").is_string());
      REQUIRE(row.at("quantity").is_string());
      REQUIRE(row.at("predicted").is_number());
      if (row.at("published").is_null()) {
        REQUIRE(row.at("error_percent").is_null());
        continue;
      }
      double const error = row.at("error_percent");
      REQUIRE(
          error ==
          Approx(100 * (row.at("predicted").get<double>() / row.at("published").get<double>() - 1))
              .margin(1e-9));
      sum += std::abs(error);
      most = std::max(most, std::abs(error));
      ++count;
    }
    json const& errors = result.at("errors").at(name);
    REQUIRE(errors.at("max_percent").get<double>() == Approx(most).margin(1e-9));
    REQUIRE(errors.at("mean_percent").get<double>() ==
            Approx(count == 0 ? 0 : sum / count).margin(1e-9));
  }
}

TEST_CASE(
    "reproduce --json has the errors that the tables print: in points where they are shares") {
  json const errors = json_of("reproduce all --json").at("errors");
  std::istringstream printed{run_stagecraft("reproduce all").output};
  std::string table;
  std::map<std::string, int> count;
  for (std::string line; std::getline(printed, line);) {
    if (std::size_t const colon = line.find(": "); errors.contains(line.substr(0, colon))) {
      table = line.substr(0, colon);
    }
    double mean = 0;
    double most = 0;
    char unit[8] = "";
    if (std::sscanf(line.c_str(), "mean error %lf %7[^,], largest %lf", &mean, unit, &most) != 3) {
      continue;
    }
    CAPTURE(table, line);
    std::string const ending = unit == std::string{"%"} ? "_percent" : "_points";
    ++count[ending];
    REQUIRE(errors.at(table).contains("mean_points") == (ending == "_points"));
    REQUIRE(errors.at(table).at("mean" + ending).get<double>() == Approx(mean).margin(0.0051));
    REQUIRE(errors.at(table).at("max" + ending).get<double>() == Approx(most).margin(0.0051));
  }
  REQUIRE(count == std::map<std::string, int>{{"_percent", 5}, {"_points", 6}});
}

TEST_CASE("reproduce without a name prints tables 2, 4 and 5, from any folder") {
  ProgramResult const result = run_stagecraft("reproduce", "cd / &&");
  REQUIRE(result.exit_code == 0);
  REQUIRE_THAT(result.output, Catch::Contains("table2:") && Catch::Contains("table4:") &&
                                  Catch::Contains("table5:") && !Catch::Contains("figure"));
}

TEST_CASE("reproduce refuses an unknown name with exit code 2 and the names there are") {
  for (std::string const name : {"table9", "Table5", "table5 figure2", "''"}) {
    require_refusal("reproduce --json " + name,
                    {"accepted: table2, table4, table5, headline, figure1, figure7, figure8, "
                     "figure9, appendix-c, all"});
  }
  require_refusal("reproduce table9", {"found 'table9'"});
}

TEST_CASE("reproduce --output writes a CSV a table and one JSON, and nothing partial") {
  TemporaryFolder const folder;
  std::filesystem::path const output = folder.path() / "new" / "results";
  std::string const arguments = "reproduce table2 figure9 --json";
  json const printed = json_of(arguments + " --output " + output.string());
  REQUIRE(json::parse(text_of(output / "reproduction.json")) == printed);
  for (std::string const name : {"table2", "figure9"}) {
    CAPTURE(name);
    std::istringstream lines{text_of(output / (name + ".csv"))};
    std::string line;
    std::getline(lines, line);
    REQUIRE(line == "model,case,quantity,stage,published,predicted,error_percent");
    std::size_t rows = 0;
    for (; std::getline(lines, line); ++rows) {
      json const& row = printed.at(name).at(rows);
      REQUIRE(std::count(line.begin(), line.end(), ',') == 6);
      REQUIRE_THAT(line, Catch::StartsWith(row.at("model").get<std::string>() + "," +
                                           row.at("case").get<std::string>() + ","));
      REQUIRE_THAT(line, Catch::Contains("," + row.at("predicted").dump() + ","));
    }
    REQUIRE(rows == printed.at(name).size());
  }
  std::vector<std::string> names;
  for (auto const& entry : std::filesystem::directory_iterator{output}) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  REQUIRE(names == std::vector<std::string>{"figure9.csv", "reproduction.json", "table2.csv"});
}

TEST_CASE("reproduce --output into what cannot be a folder is exit code 1") {
  ProgramResult const result = run_stagecraft("reproduce table2 --output /dev/null");
  REQUIRE(result.exit_code == 1);
  REQUIRE_THAT(result.errors, Catch::Contains("/dev/null"));
}

}  // namespace stagecraft::reproduce_command_test
