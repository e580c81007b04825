#include "tests/libexec/cuda_ptx/kernel_symbols.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <vector>

namespace stagecraft::ptx {
namespace {

std::uintptr_t load_address() {
  std::uintptr_t base = 0;
  // The program itself comes first.
  auto const take_first = [](dl_phdr_info* info, std::size_t, void* to) {
    *static_cast<std::uintptr_t*>(to) = info->dlpi_addr;
    return 1;
  };
  dl_iterate_phdr(take_first, &base);
  return base;
}

template <typename T>
T part(std::vector<char> const& file, std::size_t offset) {
  if (offset + sizeof(T) > file.size()) throw std::runtime_error{"this program's file is cut"};
  T value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

}  // namespace

KernelSymbols::KernelSymbols() : base_{load_address()} {
  std::ifstream in{"/proc/self/exe", std::ios::binary};
  std::vector<char> const file{std::istreambuf_iterator<char>{in}, {}};
  auto const header = part<Elf64_Ehdr>(file, 0);
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    auto const section = part<Elf64_Shdr>(file, header.e_shoff + i * header.e_shentsize);
    if (section.sh_type != SHT_SYMTAB) continue;
    auto const names =
        part<Elf64_Shdr>(file, header.e_shoff + section.sh_link * std::size_t{header.e_shentsize});
    std::string source;
    for (std::size_t at = 0; at < section.sh_size; at += sizeof(Elf64_Sym)) {
      auto const symbol = part<Elf64_Sym>(file, section.sh_offset + at);
      char const* const name = file.data() + names.sh_offset + symbol.st_name;
      auto const type = ELF64_ST_TYPE(symbol.st_info);
      bool const is_local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL;
      // Local symbols come behind the name of their source.
      if (type == STT_FILE) source = name;
      if (type != STT_FUNC || symbol.st_value == 0) continue;
      functions_[symbol.st_value] = {name, is_local ? source : std::string{}};
    }
  }
  if (functions_.empty()) throw std::runtime_error{"this program has no symbols"};
}

KernelSymbol const& KernelSymbols::at(void const* function) const {
  auto const found = functions_.find(reinterpret_cast<std::uintptr_t>(function) - base_);
  if (found == functions_.end()) throw std::runtime_error{"a kernel without a symbol"};
  return found->second;
}

std::string readable_name(std::string const& mangled) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> const text{
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free};
  if (status != 0) throw std::runtime_error{"no mangled name: " + mangled};
  std::string name = text.get();
  // "void kernel<Argument>(Parameter)": up to the bracket that the last one closes.
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) return name.substr(0, i);
  }
  return name;
}

}  // namespace stagecraft::ptx
