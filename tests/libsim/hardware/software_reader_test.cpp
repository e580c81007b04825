#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "libsim/config/yaml_tree.hpp"
#include "libsim/hardware/system_reader.hpp"

namespace stagecraft::software_reader_test {
namespace {

std::filesystem::path const folder =
    std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs/software";

Software read(YamlNode const& root) {
  Diagnostics diagnostics;
  Software software = read_software(ConfigNode{root, "", diagnostics});
  diagnostics.throw_if_any();
  return software;
}

Software read_text(std::string const& text) {
  Diagnostics diagnostics;
  auto const root = parse_yaml(text, "s.yaml", diagnostics);
  diagnostics.throw_if_any();
  return read(*root);
}

Software read_file(std::filesystem::path const& file) {
  Diagnostics diagnostics;
  auto const root = parse_yaml_file(file, Place{}, "", diagnostics);
  diagnostics.throw_if_any();
  return read(*root);
}

TEST_CASE("the default stack is the paper's", "[hardware]") {
  REQUIRE(default_software() == read_file(folder / "megatron-2022.yaml"));
  REQUIRE(default_software().name == "megatron-2022");
}

TEST_CASE("stacks whose memory is described are judged by their allocator", "[hardware]") {
  REQUIRE(decides_by_allocator(read_file(folder / "nanotron.yaml")));
  REQUIRE(decides_by_allocator(read_file(folder / "megatron-core.yaml")));
  REQUIRE(!decides_by_allocator(default_software()));
  REQUIRE(!decides_by_allocator(read_file(folder / "megatron-deepspeed-2022.yaml")));
}

TEST_CASE("a stack is written as it is read", "[hardware]") {
  Software const software = read_file(folder / "nanotron.yaml");
  REQUIRE(software.kernels.accumulation_bytes.value == 12);
  REQUIRE(framework_memory(software).kept == std::map<OpKind, double>{{OpKind::swiglu, 1}});
  REQUIRE(read_text(to_json(software).dump()) == software);
}

TEST_CASE("a stack that says nothing of memory allocates the op program's tensors alone",
          "[hardware]") {
  REQUIRE(framework_memory(read_text("{name: mine}")) == FrameworkMemory{});
}

TEST_CASE("workspaces are those of the compute capability", "[hardware]") {
  Software const software = read_file(folder / "megatron-core.yaml");
  REQUIRE(read_text(to_json(software).dump()) == software);
  constexpr std::int64_t mib = std::int64_t{1} << 20;
  // PyTorch: :4096:2:16:8, and 32 MiB from Hopper on. Transformer Engine: 4 MiB, and 32 MiB and
  // 1,024 bytes; four of them for products of experts in groups.
  for (int const before : {7, 8}) {
    FrameworkMemory const memory = framework_memory(software, before);
    REQUIRE(memory.workspace == Bytes{8'519'680});
    REQUIRE(memory.shared_workspace == Bytes{4 * mib});
    REQUIRE(memory.grouped_workspace == Bytes{16 * mib});
  }
  for (int const since : {9, 10}) {
    FrameworkMemory const memory = framework_memory(software, since);
    REQUIRE(memory.workspace == Bytes{32 * mib});
    REQUIRE(memory.shared_workspace == Bytes{32 * mib + 1024});
    REQUIRE(memory.grouped_workspace == Bytes{128 * mib + 4096});
  }
  REQUIRE(framework_memory(read_text("{name: mine, memory: {workspace: 3 MiB}}"), 9).workspace ==
          Bytes{3 * mib});
  REQUIRE_THROWS_WITH(read_text("{name: mine, memory: {workspace: {hopper: 3 MiB}}}"),
                      Catch::Contains("hopper") && Catch::Contains("compute capability"));
}

TEST_CASE("a constant may stand alone, it was then given by the user", "[hardware]") {
  Software const software = read_text("{name: mine, host: {kernel: 10 us}}");
  REQUIRE(software.host.kernel.value == Seconds{10e-6});
  REQUIRE(software.host.kernel.source == "given in s.yaml");
  REQUIRE(software.host.gemm.value == Seconds{0});
  REQUIRE(software.host.gemm.source.empty());
  REQUIRE(software.host.backward.value == 1);
}

TEST_CASE("what a stack cannot have is refused with what is accepted", "[hardware]") {
  REQUIRE_THROWS_WITH(read_text("{name: mine, kernels: {traffic: {swiglo: 2}}}"),
                      Catch::Contains("swiglo") && Catch::Contains("swiglu"));
  REQUIRE_THROWS_WITH(read_text("{name: mine, host: {kernal: 1 us}}"),
                      Catch::Contains("kernal") && Catch::Contains("kernel"));
  REQUIRE_THROWS_WITH(read_text("{name: mine, replicas: {overlap: sometimes}}"),
                      Catch::Contains("never, unless_sharded, always"));
}

}  // namespace
}  // namespace stagecraft::software_reader_test
