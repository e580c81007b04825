// Links all components, which fails to configure if one of them lacks a library that it needs.
int main() {}
