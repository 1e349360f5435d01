module everyday

go 1.19
