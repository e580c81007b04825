#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "libsim/allocator/sequence_file.hpp"
#include "tests/libsim/allocator/replayed.hpp"

namespace stagecraft::allocator_oracle_test {
namespace {

using nlohmann::json;

/// Sequences of random requests and of training stages (1F1B, full recompute, distributed
/// optimizer), with the answers of PyTorch's own allocator: the libc10_cuda of torch 2.15.0+cu132
/// (git d0f2af8b), driven through a stub of the CUDA runtime that counts device memory.
std::filesystem::path const folder =
    std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "tests/oracle/allocator";

json end_of(AllocationReplay const& replay) {
  AllocatorCounters const& end = replay.end;
  return {{"n", replay.n},
          {"allocated", end.allocated},
          {"peak_allocated", end.peak_allocated},
          {"reserved", end.reserved},
          {"peak_reserved", end.peak_reserved},
          {"requested", end.requested},
          {"active", end.active},
          {"inactive_split", end.inactive_split},
          {"segments", end.segments},
          {"retries", end.retries},
          {"ooms", end.ooms},
          {"device_alloc", end.device_alloc},
          {"device_free", end.device_free},
          {"device_used", end.device_used}};
}

json checkpoints_of(AllocationReplay const& replay) {
  json checkpoints = json::array();
  for (AllocationCheckpoint const& at : replay.checkpoints) {
    checkpoints.push_back({{"n", at.n},
                           {"allocated", at.allocated},
                           {"reserved", at.reserved},
                           {"inactive_split", at.inactive_split}});
  }
  return checkpoints;
}

}  // namespace

TEST_CASE("every recorded sequence ends as PyTorch's allocator ended, in every field",
          "[allocator]") {
  json const golden = json::parse(read_inflated(folder / "golden.json.gz"));
  std::map<std::string, std::string> traces;
  std::set<std::string> settings;
  int ran_out = 0;
  for (json const& recorded : golden) {
    auto const name = recorded.at("trace").get<std::string>();
    auto const [trace, is_new] = traces.try_emplace(name);
    if (is_new) trace->second = read_inflated(folder / (name + ".gz"));
    std::string text;
    for (json const& line : recorded.at("prelude")) text += line.get<std::string>() + "\n";
    text += trace->second;
    auto const conf = recorded.at("conf").get<std::string>();
    settings.insert(conf);
    AllocationReplay const result =
        replayed(text, conf, recorded.at("capacity").get<std::int64_t>());
    INFO(name << " with '" << conf << "' on " << recorded.at("capacity") << " bytes, "
              << recorded.at("prelude"));
    REQUIRE((result.oom_at ? json(*result.oom_at) : json(nullptr)) == recorded.at("oom_at"));
    REQUIRE(end_of(result) == recorded.at("end"));
    REQUIRE(checkpoints_of(result) == recorded.at("checkpoints"));
    if (result.oom_at) ++ran_out;
  }
  REQUIRE(golden.size() == 286);
  REQUIRE(traces.size() == 11);
  REQUIRE(settings.size() == 6);
  REQUIRE(ran_out == 48);
}

}  // namespace stagecraft::allocator_oracle_test
